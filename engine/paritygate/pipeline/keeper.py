"""`--keep-outputs`: what every runner of a run answered, as recordings in the run folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from paritygate.comparison.rows import SampleRows, Side, StageResult
from paritygate.core.forms import NAME
from paritygate.judge import RunFacts
from paritygate.judge.consistency import judge_consistency
from paritygate.judge.noise import judge_noise
from paritygate.pipeline.notes import seen_through
from paritygate.pipeline.prepare import Preparation
from paritygate.pipeline.recorder import Recorder, describe_kept
from paritygate.pipeline.span import BlockResult
from paritygate.pipeline.surroundings import Surroundings, changed_finding
from paritygate.runfolder import RunFolder
from paritygate.runners.base import Finding, Runner
from paritygate.runners.recorded_origin import Origin


class Keeper:
    """One recorder a distinct runner; see `Recorder`."""

    def __init__(self, ready: Preparation, folder: RunFolder) -> None:
        """Make the folder `outputs`.

        Raises:
            FolderError: it can't be made.
        """
        self._ready = ready
        prepared = ready.prepared
        self._folder = folder
        outputs = folder.outputs
        self._recorders = {
            name: Recorder(prepared, runner, outputs / f"{_stem(name, at)}.arrow")
            for at, (name, runner) in enumerate(prepared.runners.items())
        }

    def witness(
        self,
        samples: SampleRows,
        sides: Mapping[str, Side],
        _results: Mapping[str, StageResult],
    ) -> None:
        """Take the answers to a block; see `Prepared.witness`."""
        for name, recorder in self._recorders.items():
            recorder.keep(samples, sides[name])

    def take(self, result: BlockResult) -> None:
        """Write a block; called in block order.

        Raises:
            FolderError: a recording can't be written.
        """
        for recorder in self._recorders.values():
            recorder.take(result.block, result.rejected)

    def finish(self, around: Surroundings, facts: RunFacts) -> dict[str, Any]:
        """Complete the recordings.

        Args:
            around: what the run ran in.
            facts: of the run that is over, for what holds a runner by itself.

        Returns:
            By runner its file with size and digest, and what became of the samples.

        Raises:
            FolderError: a recording can't be written.
        """
        changed = changed_finding(self._ready)
        by_itself = _by_itself(facts)
        told = {}
        for name, recorder in self._recorders.items():
            runner = self._ready.prepared.runners[name]
            findings = [*runner.final_findings(), *changed, *by_itself.get(name, ())]
            kept = recorder.finish(
                around.golden_digest(),
                around.environment(),
                findings,
                tuple(_unchecked(self._ready, facts, runner)),
            )
            told[name] = describe_kept(kept, self._folder.partial)
        return told

    def abort(self) -> None:
        """Drop what has been written."""
        for recorder in self._recorders.values():
            recorder.abort()


def _by_itself(facts: RunFacts) -> dict[str, list[Finding]]:
    """What holds a runner whatever it is compared with; noise below a tolerance is the plan's."""
    found: dict[str, list[Finding]] = {}
    for runner, reason in (*judge_consistency(facts), *judge_noise(facts)):
        if reason.code.startswith("runner."):
            told = Finding(
                reason.code, reason.message, reason.next or "", reason.count, tuple(reason.ids)
            )
            found.setdefault(runner, []).append(told)
    return found


def _unchecked(ready: Preparation, facts: RunFacts, runner: Runner) -> Iterator[str]:
    """What of a runner the run didn't look for."""
    check = facts.consistency.runners.get(runner.name)
    if check is None or check.why_not or not check.outputs:
        why = check.why_not if check is not None and check.why_not else "no sample was run again"
        yield f"it was not checked whether its answers depend on the batch; {why}"
    pack, drift = ready.prepared.pack, facts.consistency.drift
    compared = {
        s.stage.reference for s in facts.stages if any(s.stage.name == of for of, _ in drift)
    }
    if pack.outputs and runner.kind != "recorded" and runner.name not in compared:
        yield "it was not checked whether its answers are what the pack had recorded"
    if isinstance(origin := getattr(seen_through(runner), "origin", None), Origin):
        yield from origin.notes


def _stem(runner: str, at: int) -> str:
    """The runner's name, where it can name a file."""
    return runner if NAME.fullmatch(runner) else f"runner-{at}"
