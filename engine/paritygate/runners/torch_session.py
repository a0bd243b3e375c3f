"""Run batches through a program of torch: in inference mode, into arrays of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from paritygate.core.dtypes import numpy_dtype
from paritygate.core.errors import RunnerError
from paritygate.core.ragged import Tensor
from paritygate.core.tensors import Array, Batch
from paritygate.gpu.tensor import DeviceTensor, Outputs
from paritygate.runners.base import Finding, Lease, Runner, RunnerSession, describe_batch
from paritygate.runners.ort_probe import BatchProbe
from paritygate.runners.ort_wiring import Wiring
from paritygate.runners.python_import import is_interrupt, tell_error
from paritygate.runners.torch_arrays import AnswerError, named, rename, to_array, to_torch, unusable
from paritygate.runners.torch_device import lies_there, to_device_tensor, wait
from paritygate.runners.torch_program import Program
from paritygate.runners.torch_script import tell_torch
from paritygate.runners.torch_settings import Settings, differences, put_in_force
from paritygate.runners.torch_wiring import Fed, TorchWiring

T = TypeVar("T")
_LOOKS = 3  # runs of the first batch: TorchScript optimises what it has run twice


class Caller:
    """Calls a program with arrays; threads may share it."""

    def __init__(
        self,
        program: Program,
        wiring: TorchWiring,
        device: str,
        settings: Settings,
        *,
        is_thread_safe: bool,
    ) -> None:
        self._program = program
        self._wiring = wiring
        self._device = device
        self._settings = settings
        self._changed: tuple[str, ...] = ()
        self._one_at_a_time: AbstractContextManager[Any] = (
            nullcontext() if is_thread_safe else threading.Lock()
        )
        self._first = threading.Lock()
        self._is_known = False
        self._problem: str | None = None
        self._seen: tuple[Finding, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What the first batch, and the settings after each, have shown."""
        return (*self._seen, *((_settings_changed(self._changed),) if self._changed else ()))

    def __call__(self, arrays: Sequence[Array]) -> dict[str, Array]:
        """Answer one batch.

        Args:
            arrays: in the order of what comes with a batch.

        Raises:
            AnswerError: an answer that can't be judged.
        """
        return self._call(arrays, _own)

    def there(self, arrays: Sequence[Array], stays: frozenset[str]) -> Outputs:
        """Answer one batch, some outputs of which stay on the first GPU, if they are there.

        Raises:
            AnswerError: an answer that can't be judged.
        """

        def take(name: str, value: Any) -> Array | DeviceTensor:
            is_there = name in stays and unusable(value) is None and lies_there(value)
            return to_device_tensor(value) if is_there else _own(name, value)

        found = self._call(arrays, take)
        if any(isinstance(tensor, DeviceTensor) for tensor in found.values()):
            wait()
        return Outputs(found)

    def _call(self, arrays: Sequence[Array], take: Callable[[str, Any], T]) -> dict[str, T]:
        import torch

        if differences(self._settings):  # each thread has a number of threads of its own
            put_in_force(self._settings)
        program = self._program
        plain = torch.autocast(self._device.partition(":")[0], enabled=False)
        with self._one_at_a_time, torch.inference_mode(), plain:
            if program.reset is not None:
                program.reset()
            args, keywords = self._arguments(arrays)
            answer = program.call(*args, **keywords)
            self._changed = self._changed or differences(self._settings)
            outputs = rename(named(answer), self._wiring.names)
            return {name: take(name, value) for name, value in outputs.items()}

    def first(self, arrays: Sequence[Array], size: int) -> tuple[dict[str, Array], str | None]:
        """Answer a batch; the first one several times, to see whether it can be judged at all.

        Returns:
            The answer, and what is wrong with the program.
        """
        if self._is_known:
            return self(arrays), self._problem
        with self._first:
            if self._has_looked():
                return self(arrays), self._problem
            looks = [self(arrays) for _ in range(_LOOKS)]
            if not all(_same_bits(looks[0], other) for other in looks[1:]):
                self._seen = (_NOT_REPEATABLE,)
            else:
                self._problem = self._probe(arrays, looks[-1], size)
            self._is_known = True
            return looks[-1], self._problem

    def _has_looked(self) -> bool:
        """Whether another thread has, by now."""
        return self._is_known

    def _arguments(self, arrays: Sequence[Array]) -> tuple[list[Any], dict[str, Any]]:
        args: list[Any] = []
        keywords: dict[str, Any] = dict(self._wiring.given)
        given = iter(arrays)
        values = {
            one.parameter.name: self._value(one, next(given) if one.constant is None else None)
            for one in self._wiring.fed
        }
        for parameter in self._program.parameters:
            name = parameter.name
            if name not in values and name not in keywords:
                continue
            value = values[name] if name in values else keywords.pop(name)
            if parameter.by_keyword:
                keywords[name] = value
            else:
                args.append(value)
        return args, keywords

    def _value(self, one: Fed, array: Array | None) -> Any:
        if one.constant is not None and (one.is_scalar or one.parameter.fixed):
            return one.constant.item()
        source = array if array is not None else one.constant
        assert source is not None
        # Always a copy: the pack is mapped and others read it too, and that a program doesn't
        # write to what it is given can't be known of all.
        return to_torch(source).to(self._device)

    def _probe(self, arrays: Sequence[Array], outputs: dict[str, Array], size: int) -> str | None:
        """Whether each output follows the batch, by one run of another size or in another order."""
        failed = threading.Event()

        def again(inference: object, moved: Sequence[Array]) -> dict[str, Array]:
            del inference
            try:
                return self(moved)
            except Exception:
                failed.set()
                raise

        base = self._wiring.base
        problem = BatchProbe(_probed(base, outputs, base.fixed_batch), "cpu", again).look(
            None, arrays, outputs, size
        )
        if failed.is_set() and size > 1:  # another size is out of the question
            wiring = _probed(base, outputs, size)
            return BatchProbe(wiring, "cpu", again).look(None, arrays, outputs, size)
        return problem


def _settings_changed(changed: tuple[str, ...]) -> Finding:
    return Finding(
        code="runner.settings_changed",
        message=(
            "settings of torch were others after a batch than those that the summary names "
            f"({'; '.join(changed)}): the program, or another in this process, sets them itself"
        ),
        next=(
            "take the calls that set them out of the forward, and say what is wanted in the "
            "runner's table (deterministic, intra_op_num_threads, tf32)"
        ),
    )


_NOT_REPEATABLE = Finding(
    code="runner.not_repeatable",
    message=(
        "the first batch, run three times, was not answered with the same bits: the program draws "
        "random numbers (a dropout that is on), or keeps something from one call to the next"
    ),
    next=(
        "export it in evaluation mode; where it keeps a state, name the method that clears it "
        "(reset = ...), or judge a submodule that takes the state as an input (submodule = ...)"
    ),
)


def _probed(base: Wiring, outputs: Mapping[str, Array], fixed_batch: int | None) -> Wiring:
    from msgspec.structs import replace

    fetches = tuple((name, name) for name in outputs)
    return replace(base, fetches=fetches, fixed_batch=fixed_batch, unproven=())


def _same_bits(one: Mapping[str, Array], other: Mapping[str, Array]) -> bool:
    return one.keys() == other.keys() and all(
        a.dtype == other[name].dtype
        and a.shape == other[name].shape
        and a.tobytes() == other[name].tobytes()
        for name, a in one.items()
    )


def _own(name: str, value: Any) -> Array:
    try:
        return to_array(value)
    except AnswerError as e:
        raise AnswerError(f"output {name!r} {e}") from None


class TorchSession(RunnerSession):
    """One thread's way into a program."""

    def __init__(self, runner: Runner, caller: Caller, wiring: TorchWiring) -> None:
        super().__init__(runner)
        self._caller: Caller | None = caller
        self._fed = [one for one in wiring.fed if one.constant is None]
        self._specs = wiring.base.inputs

    def close(self) -> None:
        """Let go of the program."""
        self._caller = None

    def _run_impl(self, batch: Batch) -> Lease:
        if self._caller is None:
            raise RunnerError(f"runner {self.runner.name!r}: the session is closed")
        where = describe_batch(self.runner.name, batch)
        arrays = [self._fed_array(where, one, batch) for one in self._fed]
        stays = self.runner.stays if self.runner.observed is not None else frozenset()
        outputs: Mapping[str, Tensor]
        try:
            if stays:
                outputs, problem = self._caller.there(arrays, stays), None
            else:
                outputs, problem = self._caller.first(arrays, batch.size)
        except AnswerError as e:
            raise RunnerError(f"{where}: the answer {e}") from None
        except BaseException as e:  # whatever a module of the user's raises
            if is_interrupt(e):
                raise
            told = tell_torch(e) if isinstance(e, RuntimeError) else tell_error(e)
            raise RunnerError(f"{where}: torch: {told}") from None
        if problem:
            raise RunnerError(f"{where}: {problem}")
        return Lease(outputs)

    def _fed_array(self, where: str, one: Fed, batch: Batch) -> Array:
        array, dtype = batch.inputs.get(one.ours), numpy_dtype(self._specs[one.ours].dtype)
        if array is None:
            has = sorted(batch.inputs)
            raise RunnerError(f"{where}: lacks input {one.ours!r}; it has {has}")
        if array.dtype != dtype:
            found = array.dtype.str
            raise RunnerError(f"{where}: input {one.ours!r} is {found}, not {dtype.str}")
        return array
