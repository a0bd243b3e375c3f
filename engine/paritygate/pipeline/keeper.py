"""`--keep-outputs`: what every runner of a run answered, as recordings in the run folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from paritygate.comparison.rows import SampleRows, Side, StageResult
from paritygate.core.tables import NAME
from paritygate.pipeline.prepare import Preparation
from paritygate.pipeline.recorder import Recorder, describe_kept
from paritygate.pipeline.span import BlockResult
from paritygate.pipeline.surroundings import Surroundings, changed_finding
from paritygate.runfolder import RunFolder


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
            recorder.take(result.block, len(result.rejected))

    def finish(self, around: Surroundings) -> dict[str, Any]:
        """Complete the recordings.

        Returns:
            By runner its file with size and digest, and what became of the samples.

        Raises:
            FolderError: a recording can't be written.
        """
        changed = changed_finding(self._ready)
        told = {}
        for name, recorder in self._recorders.items():
            findings = [*self._ready.prepared.runners[name].final_findings(), *changed]
            kept = recorder.finish(around.golden_digest(), around.environment(), findings)
            told[name] = describe_kept(kept, self._folder.partial)
        return told

    def abort(self) -> None:
        """Drop what has been written."""
        for recorder in self._recorders.values():
            recorder.abort()


def _stem(runner: str, at: int) -> str:
    """The runner's name, where it can name a file."""
    return runner if NAME.fullmatch(runner) else f"runner-{at}"
