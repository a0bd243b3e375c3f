"""What every kernel may rely on, and may not do."""

import gc
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numba import typeof
from numba.core import event
from numba.core.errors import NumbaTypeError, NumbaValueError, TypingError
from numba.extending import typeof_impl

from paritygate.kernels import _jit, decisions, elements, sums
from paritygate.kernels._jit import Inner, jit, scalar


@jit
def total(values):
    found = 0.0
    for k in range(values.size):
        found += values[k]
    return found


@scalar
def half(value):
    return 0.5 * value


@jit
def half_of_total(values):
    return half(total(values))


def test_kernels_count_no_references():
    for kernel in (elements.judge_floats, sums.sum_errors, decisions.argmax_codes):
        assert kernel.targetoptions["_nrt"] is False


def test_a_kernel_that_makes_an_array_does_not_compile():
    @jit
    def doubled(values):
        made = np.zeros(values.size)
        for i in range(values.size):
            made[i] = 2 * values[i]
        return made

    with pytest.raises(TypingError, match="Only accept returning of array passed into"):
        doubled(np.ones(3))


def test_division_by_zero_is_that_of_ieee_754():
    @jit
    def ratio(values, into):
        into[0] = values[0] / values[1]

    into = np.zeros(1)
    ratio(np.array([1.0, 0.0]), into)
    assert into[0] == np.inf


def test_a_kernel_is_called_by_kernels_and_from_python_in_any_order():
    single, double = np.ones(4, np.float32), np.ones(4)
    assert total(single) == 4.0
    assert half_of_total(single) == 2.0
    assert half_of_total(double) == 2.0
    assert total(double) == 4.0
    assert half(3.0) == 1.5
    for function in (total, half):
        called = function.inner.dispatcher
        assert called.targetoptions["no_cpython_wrapper"] is True
        assert not function.targetoptions.get("no_cpython_wrapper")
    assert set(total.inner.dispatcher.signatures) == set(total.signatures)


def test_numba_is_asked_for_nothing_before_a_kernel_is_called(monkeypatch):
    made = []
    real = _jit._dispatcher
    monkeypatch.setattr(
        _jit, "_dispatcher", lambda *args, **options: made.append(args[0]) or real(*args, **options)
    )

    @jit
    def one(values):
        return values.size

    @jit
    def of_one(values):
        return one(values) + 1

    assert (one.__name__, one.py_func(np.ones(3)), made) == ("one", 3, [])
    assert of_one(np.ones(3)) == 4
    # `one` as Numba knows it and as it is called; `of_one` as Python calls it.
    assert made.count(of_one.py_func) == 1
    made.clear()
    assert one(np.ones(3)) == 3
    assert of_one.signatures
    assert made == []


def test_threads_get_the_same_kernel(monkeypatch):
    made = []

    def slow(*args, **options):
        made.append(args)
        time.sleep(0.05)
        return object.__new__(type("Made", (), {}))

    monkeypatch.setattr(_jit, "_dispatcher", slow)
    kernel = _jit.Kernel(len, is_cached=False)
    with ThreadPoolExecutor(4) as pool:
        found = set(pool.map(lambda _: kernel.dispatcher, range(4)))
    assert (len(found), len(made)) == (1, 1)


def test_what_only_kernels_call_is_not_made_for_python():
    @jit
    def twice(values):
        return 2 * half_of_total(values)

    before = len(half_of_total.signatures)
    assert twice(np.ones(4, np.int16)) == 4.0
    assert len(half_of_total.signatures) == before


@pytest.mark.parametrize("is_on", [True, False])
def test_garbage_is_not_looked_for_while_a_kernel_is_compiled(is_on):
    seen = []

    class Look(event.Listener):
        def on_start(self, event):
            seen.append(gc.isenabled())

        def on_end(self, event):
            pass

    def one(values):
        return values[0]

    one.__module__ = "paritygate.kernels.one"
    (gc.enable if is_on else gc.disable)()
    try:
        with event.install_listener("numba:run_pass", Look()):
            assert jit(one)(np.ones(1)) == 1.0
        assert gc.isenabled() is is_on
    finally:
        gc.enable()
    assert set(seen) == {False}


def test_garbage_is_looked_for_again_once_a_kernel_cannot_be_compiled():
    def fails(values):
        return values.no_such_thing

    fails.__module__ = "paritygate.kernels.fails"
    with pytest.raises(TypingError):
        jit(fails)(np.ones(1))
    assert gc.isenabled()


def test_threads_that_ask_at_once_get_one_dispatcher():
    def make():
        time.sleep(0.01)
        return object()

    inner = Inner(make)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: inner.dispatcher, range(4)))
    assert len(set(map(id, found))) == 1


def some_arrays() -> Iterator[np.ndarray]:
    for dtype in (
        "?",
        "i1",
        "u2",
        "<i4",
        "i8",
        "f2",
        "f4",
        "O",
        "f8",
        "c8",
        "M8[s]",
        "S3",
        "i4,f8",
    ):
        for base in (np.zeros((4, 3), dtype), np.zeros(5, dtype), np.zeros((), dtype)):
            yield from (base, base.T, base[::-1] if base.ndim else base)
            locked = base.copy()
            locked.flags.writeable = False
            yield locked
    yield np.frombuffer(bytes(13), np.uint8)[1:].view("<f4")  # at an odd address
    yield np.zeros((2, 3, 4), order="F")[:, 1:, :]


def test_arrays_have_the_types_that_numba_gives_them() -> None:
    arrays = list(some_arrays())
    assert not arrays[-2].flags.aligned
    assert typeof_impl.dispatch(np.ndarray) is _jit._type_array
    for array in arrays:
        assert _jit._type_array(array, None) == _jit._type_any_array(array, None), array.dtype
    with pytest.raises(NumbaValueError):
        _jit._type_array(np.zeros(2, ">f4"), None)
    with pytest.raises(NumbaTypeError, match="MaskedArray"):
        typeof(np.ma.masked_array([1.0], [True]))
