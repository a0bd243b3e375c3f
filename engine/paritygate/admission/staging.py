"""Copies that are loaded in place of files that somebody may change under a run.

A file that is overwritten, truncated, replaced or removed after it was copied changes no result
and crashes nothing: what was digested is what runs. Whoever asks for the same unchanged file
shares one copy, and the last one to let go of it removes it.
"""

from __future__ import annotations

import atexit
import os
import shutil
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from msgspec import Struct

from paritygate.admission.errors import AdmissionError
from paritygate.admission.files import copy_file, open_file
from paritygate.admission.place import Place, make_place
from paritygate.core.digest import Watched


class _Copies(Protocol):
    @property
    def watched(self) -> tuple[Watched, ...]: ...


T = TypeVar("T", bound=_Copies)


class StagedFile(Struct, frozen=True):
    """A copy of one file, which other processes of this user can read too.

    Attributes:
        path: of the copy, which has the name of the original.
        source: the original.
        bytes: its size.
        sha256: of the copy's bytes, hex.
        seconds: that it took to copy.
        is_clone: whether it shares its blocks with the original.
        watched: the original as it was when it was copied.
    """

    path: Path
    source: Path
    bytes: int
    sha256: str
    seconds: float
    is_clone: bool
    watched: tuple[Watched, ...]


class Held(Generic[T]):
    """A hold on a copy, which stays as long as anybody holds it.

    Attributes:
        value: what was copied, picklable.
    """

    def __init__(self, value: T, let_go: Callable[[], None]) -> None:
        self.value = value
        self._let_go: Callable[[], None] | None = let_go

    def close(self) -> None:
        """Let go of it; closing twice is the same as once. What is mapped stays mapped."""
        let_go, self._let_go = self._let_go, None
        if let_go is not None:
            let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def stage_file(path: Path, sha256: str | None = None) -> Held[StagedFile]:
    """Copy one file to the private place and digest the copy.

    Args:
        path: the file; a link is followed.
        sha256: what its digest must be, hex; None: anything.

    Raises:
        AdmissionError: it isn't a readable regular file (`admission.invalid_model`), there is no
            room for the copy (`admission.staging`), it changed meanwhile (`admission.changed`), or
            has another digest than it must have (`admission.digest`).
    """
    held = hold(("file", str(path.absolute())), lambda folder: _copy(path, folder))
    found = held.value.sha256
    if sha256 is not None and found != sha256.lower():
        held.close()
        raise AdmissionError(
            f"{path}: has SHA-256 {found}, but the plan says {sha256}; if this is the file that "
            "is meant, write its digest into the plan",
            "admission.digest",
            is_machine_fault=True,
        )
    return held


def _copy(path: Path, folder: Path) -> StagedFile:
    started = time.perf_counter()
    target = folder / path.name
    with open_file(path) as source:
        made = copy_file(source, target)
        watched = (source.watched,)
    seconds = time.perf_counter() - started
    return StagedFile(target, path, made.bytes, made.sha256, seconds, made.is_clone, watched)


def staging_facts(size: int, seconds: float, *, is_clone: bool) -> dict[str, object]:
    """What the summary says of the copies of a runner: bytes, method, seconds."""
    method = "reflink" if is_clone else "copy"
    return {"bytes": size, "method": method, "seconds": seconds}


class _Entry:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.holds = 0
        self.value: Any = None
        self.making = threading.Lock()


class _Store:
    """The copies of this process, in one private place that is made when it is first needed."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, ...], _Entry] = {}
        self._place: Place | None = None
        self._count = 0
        self._live = 0

    def enter(self, key: tuple[str, ...], fresh: _Entry | None = None) -> _Entry:
        """The entry of a key, held; a new one where there is none, or only a stale one."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry is fresh:
                if self._place is None:
                    self._place = make_place()
                self._count += 1
                entry = _Entry(self._place.folder / f"{self._count:04d}")
                entry.folder.mkdir(mode=0o700)
                self._entries[key] = entry
                self._live += 1
            entry.holds += 1
            return entry

    def leave(self, key: tuple[str, ...], entry: _Entry) -> None:
        """Let go of an entry; the last one removes its copies. A forked process removes nothing."""
        if os.getpid() != self._owner:
            return
        with self._lock:
            entry.holds -= 1
            if entry.holds:
                return
            if self._entries.get(key) is entry:
                del self._entries[key]
            shutil.rmtree(entry.folder, ignore_errors=True)
            self._live -= 1
            if not self._live and self._place is not None:
                self._place.remove()
                self._place = None

    def abandon(self) -> None:
        """Forget the place, in a process that was forked off."""
        if self._place is not None:
            self._place.abandon()

    def clear(self) -> None:
        """Remove everything; at the end of the process."""
        place, self._place = self._place, None
        if place is not None:
            place.remove()


_store = _Store()


def hold(key: tuple[str, ...], make: Callable[[Path], T]) -> Held[T]:
    """Hold the copy of a key, made by whoever asks first.

    Args:
        key: what is copied.
        make: copies it into an empty folder. A copy whose originals have changed since isn't
            shared: it is made anew.
    """
    store, stale = _store, None
    while True:
        entry = store.enter(key, stale)
        try:
            with entry.making:
                if entry.value is None:
                    _empty(entry.folder)
                    entry.value = make(entry.folder)
                elif any(watched.is_changed() for watched in entry.value.watched):
                    stale = entry
        except BaseException:
            store.leave(key, entry)
            raise
        if entry is not stale:
            return Held(entry.value, partial(store.leave, key, entry))
        store.leave(key, entry)


def _empty(folder: Path) -> None:
    """Remove what an earlier try left in a folder that others wait for."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)


def _forget() -> None:
    """A process that was forked off owns no copies; the lock stays its parent's."""
    global _store
    _store.abandon()
    _store = _Store()


os.register_at_fork(after_in_child=_forget)
atexit.register(lambda: _store.clear())
