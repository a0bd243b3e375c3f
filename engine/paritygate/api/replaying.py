"""`replay`: a run's failing samples, run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paritygate.api.plans import PathLike
from paritygate.api.result import RunResult
from paritygate.core.errors import UnreadableRunError
from paritygate.core.events import Observer, ignore
from paritygate.runfolder.reading import FinishedRun


def replay(
    folder: PathLike,
    ids: Sequence[int | str] = (),
    *,
    with_batch: bool = False,
    changed: bool = False,
    out: PathLike = "runs",
    threads: int | None = None,
    observer: Observer | None = None,
) -> RunResult:
    """Run a run's failing samples again, through the same runners, and compare then with now.

    Args:
        folder: a run folder.
        ids: samples; none: all failing ones that were kept whole. A text that is a number stands
            for the number too.
        with_batch: run them in the batches that they were in, beside their neighbours of then,
            which are read from the golden pack.
        changed: run models though their files aren't the ones that ran.
        out: parent of the replay's own run folder.
        threads: threads that run and compare; None chooses.
        observer: given the engine's events.

    Returns:
        A result that is at best `incomplete`. `summary["replay"]["samples"]` has an entry a sample
        and stage: its `outcome` is "bitwise", "same_rules" or "not_reproduced", `says` is a
        sentence.

    Raises:
        ParityError: the folder isn't a finished run, a model or the golden pack has changed, an id
            can't be replayed, or it could not be judged.
    """
    from paritygate.rerun.replay import ReplayOptions
    from paritygate.rerun.replay import replay as run_again

    options = ReplayOptions(
        ids=[ids] if isinstance(ids, int | str) else list(ids),
        with_batch=with_batch,
        changed=changed,
        out=Path(out).absolute(),
        threads=threads,
        observer=observer or ignore,
    )
    with FinishedRun(Path(folder)) as run:
        try:
            return RunResult.of(run_again(run, options))
        except (KeyError, StopIteration) as e:
            raise UnreadableRunError(
                f"{folder}: its files contradict one another ({type(e).__name__}: {e}); restore "
                "the folder from where it was written, or run again"
            ) from e
