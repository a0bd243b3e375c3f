"""Probes of a runner in a process of its own, which they may end: the next one has another."""

from __future__ import annotations

from collections.abc import Mapping

from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.core.probes import Tried
from paritygate.core.tensors import Array
from paritygate.runners.base import PrepareContext, RunnerSpec
from paritygate.runners.isolate.channel import ClosedError, GarbledError, LateError
from paritygate.runners.isolate.memory import pack_array
from paritygate.runners.isolate.runner import IsolatedRunner
from paritygate.runners.isolate.settings import Isolation

_OUTCOMES = ("accepted", "refused")


class Trial:
    """A runner that is given what no contract admits."""

    def __init__(self, spec: RunnerSpec, context: PrepareContext, timeout_s: float) -> None:
        """Prepare it in a process of its own.

        Raises:
            RunnerLoadError: it doesn't load there.
        """
        self._timeout_s = timeout_s
        given = spec.isolation if spec.isolation is not None and spec.isolation.is_on else None
        self._runner = IsolatedRunner(spec, context, given or Isolation(why="probes"))

    def give(self, inputs: Mapping[str, Array], size: int) -> Tried:
        """What it does with inputs of so many samples."""
        try:
            worker = self._runner.worker()
        except (RunnerError, RunnerLoadError) as e:
            return Tried("not_tried", str(e))
        packed = {name: pack_array(array) for name, array in inputs.items()}
        try:
            kind, told = worker.ask(("try", packed, size), self._timeout_s)
        except ClosedError:
            end, outcome = worker.ended(), "crashed"
        except LateError:
            text = f"it took longer than {self._timeout_s:g} s (probes.timeout_s)"
            end, outcome = worker.expire(text), "late"
        except GarbledError as e:
            end, outcome = worker.disown(str(e)), "crashed"
        else:
            if kind == "ok" and told[0] in _OUTCOMES:
                return Tried(told[0], str(told[1]))
            return Tried("not_tried", f"a fault of paritygate: {str(told)[-300:]}")
        self._runner.lost(worker)
        return Tried("late" if outcome == "late" else "crashed", str(end))

    def close(self) -> None:
        """End the process."""
        self._runner.close()
