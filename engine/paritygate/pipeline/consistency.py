"""Runners by themselves: at every approved batch size, and against what the pack recorded.

A part of the pack is run again: windows of consecutive samples, spread evenly over it, each as long
as the largest batch, so that batches are made of the neighbours that they have in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

from msgspec import Struct, field

from paritygate.core.errors import RunnerError
from paritygate.core.plan import Stage
from paritygate.core.policy import Tolerance
from paritygate.core.ragged import row_of
from paritygate.pipeline.measure import Measure
from paritygate.pipeline.prepare import Preparation
from paritygate.pipeline.span import Prepared
from paritygate.pipeline.windows import ANY_SIZE, Answers, Window, answers_of, windows
from paritygate.runners.base import Runner, RunnerSession
from paritygate.runners.prepared import PreparedRunner
from paritygate.runners.recorded_origin import Origin
from paritygate.tally.coupling import Consistency, SelfCheck

DEFAULT_SAMPLES = 1_024
_COMPUTE_NOTHING = ("recorded", "null")
EXACT = Tolerance(nonfinite="match")


def check_consistency(ready: Preparation, *, is_cut: bool) -> Consistency:
    """Run a part of the pack at every approved size, and against recorded outputs.

    Args:
        ready: what stands ready; the run itself is over.
        is_cut: whether the caller chose the batches, so that no other size is approved.
    """
    prepared = ready.prepared
    checks = {name: _Check.of(prepared, r, is_cut=is_cut) for name, r in prepared.runners.items()}
    recorded = dict(_recorded(prepared))
    wanted = {name for name, check in checks.items() if check.others} | set(recorded)
    samples = 0
    if wanted and ready.blocks and prepared.stages:
        longest = max(checks[name].longest for name in wanted)
        with ExitStack() as stack:
            sessions = {name: prepared.runners[name].session() for name in sorted(wanted)}
            for session in sessions.values():
                stack.callback(session.close)
            for window in windows(prepared, ready.blocks, longest, _wanted(prepared)):
                samples += window.samples.count
                for name, session in sessions.items():
                    checks[name].run(window, session, recorded.get(name, ()))
    drift = {key: m.result() for check in checks.values() for key, m in check.drift.items()}
    return Consistency(
        samples,
        {name: check.result() for name, check in checks.items()},
        drift,
        tuple(_left_out(prepared, {output for _, output in drift})) if recorded else (),
    )


def _wanted(prepared: Prepared) -> int:
    dim = prepared.plan.table.dims.batch
    return dim.check_samples if dim is not None else DEFAULT_SAMPLES


def _left_out(prepared: Prepared, compared: set[str]) -> Iterator[str]:
    dim = prepared.plan.table.dims.batch
    left = [name for name in prepared.pack.outputs if name not in compared]
    if dim is not None and not dim.check_samples:
        yield "recorded outputs: no reference was compared with the pack's; check_samples is 0"
    elif left:
        yield (
            f"recorded outputs: {', '.join(left)} of the pack, which no live reference answers as "
            "it is in a stage that judges it"
        )


def _recorded(prepared: Prepared) -> Iterator[tuple[str, list[Stage]]]:
    """Live references with the stages that judge them, where the pack has recorded outputs.

    Where a runner of the plan is that recording, the plan says by itself what it is compared with.
    """
    pack = prepared.pack
    if not pack.outputs or any(getattr(r, "is_golden", False) for r in prepared.runners.values()):
        return
    for name, runner in prepared.runners.items():
        stages = [c.stage for c in prepared.stages if c.stage.reference == name]
        if runner.kind not in _COMPUTE_NOTHING and stages:
            yield name, stages


def _recorded_at(runner: Runner) -> str:
    origin = getattr(runner, "origin", None)
    size = origin.batch_size if isinstance(origin, Origin) else None
    return (
        f"it was recorded in batches of {size}" if size else "what it was recorded at isn't known"
    )


class _Check(Struct):
    """One runner: what it is run at, and what was measured so far."""

    prepared: Prepared
    runner: Runner
    size: int | None
    others: list[int]
    why_not: str
    outputs: dict[tuple[int, str], Measure] = field(default_factory=dict)
    errors: dict[int, str] = field(default_factory=dict)
    drift: dict[tuple[str, str], Measure] = field(default_factory=dict)
    again: str = ""

    @staticmethod
    def of(prepared: Prepared, runner: Runner, *, is_cut: bool) -> _Check:
        sizes = runner.limits.batch_sizes
        size = max(sizes) if sizes else None
        dim = prepared.plan.table.dims.batch
        others = dim.besides(size) if dim is not None and size is not None else []
        why_not = ""
        if isinstance(runner, PreparedRunner):
            why_not = "they are the golden inputs themselves"
        elif runner.kind == "recorded":
            why_not = _recorded_at(runner)
        elif runner.kind == "null":
            why_not = "it computes nothing"
        elif is_cut:
            why_not = "the caller chose them, so no sample was run in a batch of other samples"
        elif dim is None:
            why_not = "the plan approves no batch sizes ([dims] batch)"
        elif size is None:
            why_not = "it takes any number of samples at once"
        elif runner.limits.is_fixed or not dim.approves(size):
            why_not = f"it takes batches of {size} only"
        elif not others:
            why_not = f"{size} is the only approved size"
        elif not dim.check_samples:
            why_not = "check_samples is 0"
        return _Check(prepared, runner, size, [] if why_not else others, why_not)

    @property
    def longest(self) -> int:
        """Samples of a window that fills a batch of every size."""
        return max([self.size or ANY_SIZE, *self.others])

    def run(self, window: Window, session: RunnerSession, recorded: Sequence[Stage]) -> None:
        """Run one window at every size."""
        try:
            base = self._answers(window, session, self.size)
        except RunnerError as error:
            self.again = self.again or str(error)
            return
        for stage in recorded:
            self._compare_recorded(stage, window, base)
        for size in self.others:
            if size in self.errors:
                continue
            try:
                other = self._answers(window, session, size)
            except RunnerError as error:
                self.errors[size] = str(error)
                continue
            for name in base:
                if name in other and self._stage_of(name) is not None:
                    made = self.outputs.setdefault((size, name), self._measure(name))
                    made.add(base[name], other[name], window.samples)

    def _answers(self, window: Window, session: RunnerSession, size: int | None) -> Answers:
        return answers_of(self.prepared, self.runner, session, window, size)

    def _measure(self, output: str) -> Measure:
        budget = self.prepared.plan.table.batch_coupling.get(self.runner.name, {}).get(output)
        allowed = EXACT
        if budget is not None:
            allowed = Tolerance(budget.atol, budget.rtol, nonfinite="match")
        return Measure(output, allowed, self._stage_of(output))

    def _stage_of(self, output: str) -> Stage | None:
        """The first stage that compares an output of this runner."""
        for comparer in self.prepared.stages:
            stage = comparer.stage
            if self.runner.name in (stage.reference, stage.candidate) and stage.judges(output):
                return stage
        return None

    def _compare_recorded(self, stage: Stage, window: Window, base: Answers) -> None:
        pack = self.prepared.pack
        views = self.prepared.plan.runners[self.runner.name].views
        for name in base:
            if name in pack.outputs and name not in views and stage.judges(name):
                rows = pack.take_output(name, window.samples.ordinals)
                key = (stage.name, name)
                made = self.drift.setdefault(key, Measure(name, None, stage))
                taken = [row_of(rows, at) for at in range(window.samples.count)]
                made.add(taken, base[name], window.samples)

    def result(self) -> SelfCheck:
        """What was measured."""
        outputs = {key: made.result() for key, made in self.outputs.items()}
        return SelfCheck(
            self.size, tuple(self.others), outputs, self.errors, self.why_not, self.again
        )
