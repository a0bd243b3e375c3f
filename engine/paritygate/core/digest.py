"""SHA-256 of files and of named parts, with a cache for files that haven't changed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

# A file changed this recently may change again within the same tick of its time stamp.
_SETTLED_NS = 2_000_000_000


class Watched(Struct, frozen=True):
    """A file as it was before it was digested.

    Attributes:
        path: of the file.
        stamp: size, times (ns), inode and device.
    """

    path: Path
    stamp: Mapping[str, int]

    def is_changed(self) -> bool:
        """Whether the file has been written, replaced or removed since."""
        try:
            return _stamp(self.path.stat()) != self.stamp
        except OSError:
            return True


def watch(path: Path, opened: int) -> Watched:
    """Note what an open file is now; called before it is digested or mapped.

    Args:
        path: where it was opened.
        opened: its file descriptor, so that it is this file and none put in its place.
    """
    return Watched(path, _stamp(os.fstat(opened)))


def sha256_file(path: Path, cache: bool = True) -> str:
    """Hex SHA-256 of a file's bytes, read in pieces (the GIL is released meanwhile).

    With `cache` a digest made before is taken where path, size, device, inode and the times (ns)
    of the last modification and the last change of status are the same; the latter can't be set
    back. A cache that can't be written is no error.

    Raises:
        OSError: the file can't be read.
    """
    before = path.stat()
    entry = _entry(path) if cache else None
    key = {"path": str(path.resolve()), **_stamp(before)}
    known = _look_up(entry, key)
    if known is not None:
        return known
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if entry is not None and _is_settled(path, before):
        _keep(entry, {**key, "sha256": digest})
    return digest


def kept_digest(kind: str, files: Sequence[Watched], make: Callable[[], str]) -> str:
    """A digest of what files hold, made before if none of them has changed since.

    Args:
        kind: what is digested, and how.
        files: as they were before `make` reads them.
        make: makes it, 64 hex digits; as in `sha256_file` a cache can't fail.
    """
    places = [str(file.path.resolve()) for file in files]
    names = hashlib.sha256("\0".join([kind, *places]).encode(errors="surrogateescape"))
    entry = _entry(Path("/", names.hexdigest()))
    key = {
        "kind": kind,
        "files": [{"path": p, **f.stamp} for p, f in zip(places, files, strict=True)],
    }
    known = _look_up(entry, key)
    if known is not None:
        return known
    digest = make()
    now = time.time_ns()
    settled = all(
        not file.is_changed()
        and now - max(file.stamp["mtime_ns"], file.stamp["ctime_ns"]) > _SETTLED_NS
        for file in files
    )
    if entry is not None and settled:
        _keep(entry, {**key, "sha256": digest})
    return digest


def digest_of(parts: Mapping[str, str]) -> str:
    """Hex SHA-256 over named digests; the order in which they are given doesn't matter."""
    return hashlib.sha256(canonical_json(dict(parts))).hexdigest()


def canonical_json(value: object) -> bytes:
    """The one UTF-8 JSON text of a value: keys sorted, no spaces, shortest floats.

    Raises:
        ValueError: NaN or infinity somewhere inside; convert it to a string first.
        TypeError: something that JSON doesn't have.
    """
    text = json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return text.encode()


def cache_folder() -> Path:
    """Folder of this user's caches: `$XDG_CACHE_HOME/paritygate` or `~/.cache/paritygate`."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "paritygate"


def _entry(path: Path) -> Path | None:
    try:
        folder = cache_folder()
    except RuntimeError:  # no home folder
        return None
    name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:32]
    return folder / "digests" / f"{name}.json"


def _look_up(entry: Path | None, key: Mapping[str, object]) -> str | None:
    if entry is None:
        return None
    try:
        known = json.loads(entry.read_bytes())
    except (OSError, ValueError):
        return None
    if not isinstance(known, dict) or {**known, "sha256": ""} != {**key, "sha256": ""}:
        return None
    digest = known.get("sha256")
    return digest if isinstance(digest, str) and len(digest) == 64 else None


def _stamp(found: os.stat_result) -> dict[str, int]:
    return {
        "size": found.st_size,
        "mtime_ns": found.st_mtime_ns,
        "ctime_ns": found.st_ctime_ns,
        "inode": found.st_ino,
        "device": found.st_dev,
    }


def _is_settled(path: Path, before: os.stat_result) -> bool:
    after = path.stat()
    last = max(after.st_mtime_ns, after.st_ctime_ns)
    return _stamp(after) == _stamp(before) and time.time_ns() - last > _SETTLED_NS


def _keep(entry: Path, content: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError, UnicodeEncodeError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=entry.parent, prefix=".new-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(canonical_json(dict(content)))
            Path(name).replace(entry)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
