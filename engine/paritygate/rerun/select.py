"""Which failing samples of a run are run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paritygate.core.errors import ReplayError
from paritygate.core.text import clean
from paritygate.runfolder.files import SampleId, meanings
from paritygate.runfolder.reading import FailedSample, FinishedRun

SHOWN = 10


def choose(run: FinishedRun, ids: Sequence[SampleId]) -> dict[str, list[FailedSample]]:
    """The samples by stage, in pack order: those with an id, or all that were kept whole.

    Raises:
        ReplayError: an id that can't be replayed, with every such id; or nothing was kept.
        GoldenError: a shard can't be read.
    """
    names = [str(stage["name"]) for stage in run.stages]
    if not ids:
        chosen = {name: run.kept(name) for name in names}
    else:
        found = _find(run, ids)
        chosen = {name: [s for s in found if s.stage == name] for name in names}
    chosen = {
        name: sorted(samples, key=lambda s: s.row) for name, samples in chosen.items() if samples
    }
    if not chosen:
        raise ReplayError(
            f"{run.folder}: no failing sample was kept, so there is nothing to run again"
        )
    return chosen


def _find(run: FinishedRun, ids: Sequence[SampleId]) -> list[FailedSample]:
    found: dict[tuple[str, SampleId], FailedSample] = {}
    problems = []
    for sample_id in ids:
        failures = [f for meant in meanings(sample_id) for f in run.find(meant)]
        kept = [f for f in failures if f.place is not None]
        if not failures:
            problems.append(f"{clean(sample_id)} failed in no stage of it")
        elif not kept:
            problems.append(f"{clean(sample_id)} failed, but its values were not kept")
        found.update(((f.stage, f.id), f) for f in kept)
    if problems:
        more = f"; and {len(problems) - SHOWN} more" if len(problems) > SHOWN else ""
        raise ReplayError(
            f"{run.folder}: only failing samples that were kept whole can be run again: "
            f"{'; '.join(problems[:SHOWN])}{more}; `paritygate explain` says what is known of each"
        )
    return list(found.values())


def rows_of(chosen: Mapping[str, Sequence[FailedSample]]) -> frozenset[int]:
    """Their rows over all golden files."""
    return frozenset(sample.row for samples in chosen.values() for sample in samples)
