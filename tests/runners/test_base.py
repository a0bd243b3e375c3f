"""Answers are checked before anyone compares them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.runners.contract import make_batch

from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Batch, TensorSpec
from paritygate.runners.base import Lease, Limits, Runner, RunnerSession
from paritygate.runners.layout import Layout

Answer = Callable[[Batch], dict[str, object]]


class _Session(RunnerSession):
    def _run_impl(self, batch: Batch) -> Lease:
        runner = self.runner
        assert isinstance(runner, _Runner)
        return Lease(runner.answer(batch), give_back=lambda: runner.released.append(batch.number))


class _Runner(Runner):
    def __init__(self, answer: Answer, outputs: dict[str, TensorSpec] | None = None) -> None:
        super().__init__(
            "r", "fake", limits=Limits(None, True), inputs=None, outputs=outputs, identity="i"
        )
        self.answer = answer
        self.released: list[int] = []

    def session(self) -> RunnerSession:
        return _Session(self)


BATCH = make_batch(np.zeros((3, 4), np.float32), start=5)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.float32(1), "is a float32, not a numpy array; wrap a numpy scalar"),
        ([1.0, 2.0, 3.0], "is a list, not a numpy array"),
        (None, "is a NoneType"),
        (np.zeros((3, 1), ">f4"), "has foreign byte order"),
        (np.zeros((3, 1), np.complex64), "is complex64; dtypes that can be judged"),
        (np.zeros((3, 1), object), "holds a int at [0, 0]; object arrays are read as texts"),
        (np.array([["a"], ["b"], [None]], object), "holds a NoneType at [2, 0]"),
        (np.array(["a", "\ud800", "c"], object), "holds a text at [1] that isn't valid Unicode"),
        (np.array(["a", "b", "c"]), "dtypes that can be judged"),
        (np.zeros((2, 1)), "its first axis must be the batch of 3 samples"),
        (np.zeros((1, 3)), "its first axis must be the batch of 3 samples"),
        (np.zeros(()), "its first axis"),
        (np.ma.masked_array(np.zeros(3), [1, 0, 0]), "is a masked array"),
    ],
)
def test_unusable_answer(value: object, message: str) -> None:
    runner = _Runner(lambda _b: {"y": value})
    with pytest.raises(RunnerError, match=r"runner 'r', batch 0 \(ids 5 to 7\): output 'y'") as e:
        runner.session().run(BATCH)
    assert message in str(e.value)
    assert runner.released == [0]


def test_declared_outputs_must_come() -> None:
    declared = {n: TensorSpec(n, "float64", ("batch",)) for n in ("y", "z")}
    runner = _Runner(lambda _b: {"y": np.zeros(3), "q": np.zeros(3)}, declared)
    with pytest.raises(RunnerError, match=r"lacks \['z'\] and has unexpected \['q'\]"):
        runner.session().run(BATCH)


def test_declared_dtype_must_come() -> None:
    declared = {"y": TensorSpec("y", "float32", ("batch",))}
    runner = _Runner(lambda _b: {"y": np.zeros(3)}, declared)
    with pytest.raises(RunnerError, match="is float64 but is declared float32"):
        runner.session().run(BATCH)


@pytest.mark.parametrize(
    "second",
    [
        {"y": np.zeros((3, 2), np.float32)},
        {"y": np.zeros((3, 3))},
        {"y": np.zeros((3, 2, 1))},
        {"y": np.zeros((3, 2)), "z": np.zeros(3)},
        {},
    ],
)
def test_later_batches_must_look_like_the_first(second: dict[str, np.ndarray]) -> None:
    answers = iter([{"y": np.zeros((3, 2))}, second, {"y": np.ones((3, 2))}])
    runner = _Runner(lambda _b: dict(next(answers)))
    runner.session().run(BATCH)
    with pytest.raises(RunnerError, match="first batch"):
        runner.session().run(BATCH)
    runner.session().run(BATCH)


@pytest.mark.parametrize(
    ("then", "rows"),
    [
        ({"y": np.zeros((3, 2), np.float32)}, 3),
        ({"y": np.zeros((3, 2), ">f8")}, 3),
        ({"y": np.zeros((3, 2), object)}, 3),
        ({"y": np.zeros((3, 3))}, 3),
        ({"y": np.ma.masked_array(np.zeros((3, 2)), True)}, 3),
        ({"z": np.zeros((3, 2))}, 3),
        ({"y": np.zeros((3, 2)), "z": np.zeros(3)}, 3),
        ({}, 3),
        ({"y": np.zeros((3, 2))}, 2),
        ({"y": np.zeros((2, 2))}, 3),
    ],
)
def test_many_good_answers_make_no_other_good(then: dict[str, np.ndarray], rows: int) -> None:
    good = {"y": np.zeros((3, 2))}
    answers = iter([good, good, good, then, good])
    session = _Runner(lambda _b: dict(next(answers))).session()
    for _ in range(3):
        session.run(BATCH)
    with pytest.raises(RunnerError, match="output|first batch"):
        session.run(make_batch(np.zeros((rows, 4), np.float32), start=5))
    session.run(BATCH)


def test_samples_elsewhere_are_moved_in_each_answer() -> None:
    runner = _Runner(lambda _b: {"y": np.arange(6.0).reshape(2, 3)})
    runner.layout = Layout(outputs={"y": 1})
    session = runner.session()
    for _ in range(3):
        assert session.run(BATCH).outputs["y"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_release_is_once() -> None:
    runner = _Runner(lambda _b: {"y": np.zeros(3)})
    with runner.session().run(BATCH) as lease:
        lease.release()
    assert runner.released == [0]
