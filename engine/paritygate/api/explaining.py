"""`explain`: a finished run, or one of its samples, as plain data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paritygate.api.plans import PathLike
from paritygate.core.errors import UnreadableRunError
from paritygate.runfolder.folder import latest_run
from paritygate.runfolder.reading import FinishedRun


def explain(folder: PathLike, sample_id: int | str | None = None) -> dict[str, Any]:
    """Why a run ended as it did, or why one of its samples failed.

    Args:
        folder: a run folder, or its `summary.json`.
        sample_id: a sample; None: the run's reasons, each with its worst samples. A text that is
            a number stands for the number too.

    Returns:
        Without a sample `verdict`, `reasons` (each with `worst`) and `stages`; with one `status`
        ("failed", "rejected", "passed", "not_run", "absent" or "unknown"), `says` and `failures`,
        one a stage: both sides, outputs with their worst element, decisions, `next`, `replay`.

    Raises:
        ParityError: the folder isn't a finished run, or a file of it can't be read.
    """
    from paritygate.diagnosis.run import explain_run, explain_sample

    with FinishedRun(Path(folder)) as run:
        try:
            return explain_run(run) if sample_id is None else explain_sample(run, sample_id)
        except (AttributeError, KeyError, TypeError, ValueError, StopIteration) as e:
            raise UnreadableRunError(
                f"{folder}: its files contradict one another ({type(e).__name__}: {e}); restore "
                "the folder from where it was written, or run again"
            ) from e


def find_latest(parent: PathLike) -> Path:
    """The newest finished run below a folder.

    Raises:
        UnreadableRunError: there is none.
    """
    return latest_run(Path(parent))
