"""What a summary needs besides the results: made on threads of its own while the run goes on."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from msgspec import Struct

from paritygate.core.digest import digest_of
from paritygate.core.errors import GoldenError
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.prepare import Preparation
from paritygate.runners.base import Finding, Runner
from paritygate.runners.environment import describe_environment
from paritygate.runners.recorded import RecordedRunner

_T = TypeVar("_T")


class Surroundings(Struct, frozen=True):
    """The digests of the golden files, and the environment."""

    pack: GoldenPack
    digests: Future[tuple[str, ...]]
    described: Future[dict[str, object]]
    recordings: Sequence[Future[tuple[str, ...]]] = ()

    def file_digests(self) -> tuple[str, ...]:
        """SHA-256 of each golden file, once the recordings are digested too.

        Raises:
            GoldenError: a file is gone.
        """
        for recording in self.recordings:
            recording.exception()  # raised again by whoever asks for its identity
        try:
            return self.digests.result()
        except OSError as e:
            raise GoldenError(
                f"{e.filename}: can't be digested any more ({e.strerror}); it was there when the "
                "run began, so run again on files that nobody removes"
            ) from e

    def golden_digest(self) -> str:
        """Digest over the golden files in their order; see `GoldenPack.digest`.

        Raises:
            GoldenError: a file is gone.
        """
        return digest_of({f"{i:08d}": digest for i, digest in enumerate(self.file_digests())})

    def environment(self) -> dict[str, object]:
        """Versions, processor and settings."""
        return self.described.result()


def look_around(pack: GoldenPack, runners: Iterable[Runner] = ()) -> Surroundings:
    """Begin to digest the golden files and recordings, and to describe the environment."""
    packs = [r.recording for r in runners if isinstance(r, RecordedRunner) and not r.is_golden]
    return Surroundings(
        pack,
        in_background(pack.file_digests),
        in_background(describe_environment),
        [in_background(recording.file_digests) for recording in packs],
    )


def recorded_files(pack: GoldenPack, runners: Collection[Runner]) -> tuple[Path, ...]:
    """Files of the packs, where every side is recorded; else none."""
    sides = [runner.recording for runner in runners if isinstance(runner, RecordedRunner)]
    if not sides or len(sides) < len(runners):
        return ()
    return tuple(dict.fromkeys(file.path for one in (*sides, pack) for file in one.files))


def in_background(work: Callable[[], _T]) -> Future[_T]:
    """Start work on a thread of its own, which doesn't keep an interrupted process alive."""
    future: Future[_T] = Future()

    def body() -> None:
        try:
            future.set_result(work())
        except BaseException as e:  # handed to whoever asks for the result
            future.set_exception(e)

    threading.Thread(target=body, name="paritygate-facts", daemon=True).start()
    return future


def changed_files(ready: Preparation) -> tuple[str, ...]:
    """Files of the packs, the models and the recordings that were written since they were opened.

    Sides first: the identity of a recording is made of digests, which must name what is there.
    """
    prepared = ready.prepared
    for runner in prepared.runners.values():
        _ = runner.source
    watched = [*prepared.pack.watched, *(w for r in prepared.runners.values() for w in r.watched)]
    watched += ready.calibration.watched if ready.calibration is not None else ()
    return tuple(dict.fromkeys(str(w.path) for w in watched if w.is_changed()))


def changed_finding(ready: Preparation) -> tuple[Finding, ...]:
    """That files changed, as what holds a recording."""
    changed = changed_files(ready)
    if not changed:
        return ()
    text = (
        f"{', '.join(changed)} changed while it was recorded, so that its digest may not name what "
        "ran"
    )
    advice = "record again on files that nobody writes; put new versions under new names"
    return (Finding("evidence.changed", text, advice),)
