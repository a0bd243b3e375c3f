from __future__ import annotations

import hashlib
import mmap
import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paritygate.core.digest import cache_folder, canonical_json, digest_of, sha256_file


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute from now, in which everything that was written before has settled."""
    now = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: now() + 60_000_000_000)


def settled(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def entries() -> list[Path]:
    return sorted(cache_folder().glob("digests/*"))


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("size", [0, 1, 3_000_000])
def test_is_sha256_of_the_bytes(tmp_path: Path, size: int) -> None:
    content = os.urandom(size)
    path = settled(tmp_path / "f", content)
    for cache in (True, True, False):
        assert sha256_file(path, cache) == hashlib.sha256(content).hexdigest()


@pytest.mark.usefixtures("later")
def test_takes_the_known_digest_while_nothing_has_changed(tmp_path: Path) -> None:
    path = settled(tmp_path / "f", b"first")
    first = sha256_file(path)
    (entry,) = entries()
    entry.write_text(entry.read_text().replace(first, "0" * 64))
    assert sha256_file(path) == "0" * 64
    assert sha256_file(path, cache=False) == first


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("written", ["in place", "through a map", "by another name"])
def test_reads_again_though_size_and_mtime_were_put_back(tmp_path: Path, written: str) -> None:
    path = settled(tmp_path / "f", b"first")
    os.link(path, tmp_path / "g")
    sha256_file(path)
    times = path.stat()
    with (tmp_path / "g" if written == "by another name" else path).open("r+b") as file:
        if written == "through a map":
            with mmap.mmap(file.fileno(), 5) as mapped:
                mapped[:] = b"other"
        else:
            file.write(b"other")
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert sha256_file(path) == hashlib.sha256(b"other").hexdigest()


@pytest.mark.usefixtures("later")
@pytest.mark.parametrize("change", ["size", "mtime", "inode"])
def test_reads_again_after_a_change(tmp_path: Path, change: str) -> None:
    path = settled(tmp_path / "f", b"first")
    sha256_file(path)
    times = path.stat()
    content = b"longer" if change == "size" else b"other"
    if change == "inode":
        settled(tmp_path / "new", content).replace(path)
    else:
        path.write_bytes(content)
    mtime = times.st_mtime_ns + (1 if change == "mtime" else 0)
    os.utime(path, ns=(times.st_atime_ns, mtime))
    assert sha256_file(path) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("age_s", [0, 3600])
def test_a_file_changed_a_moment_ago_is_not_kept(
    tmp_path: Path, age_s: int, request: pytest.FixtureRequest
) -> None:
    path = settled(tmp_path / "f", b"new")
    then = time.time_ns() - age_s * 1_000_000_000
    os.utime(path, ns=(then, then))
    sha256_file(path)
    assert entries() == []
    request.getfixturevalue("later")
    sha256_file(path)
    assert len(entries()) == 1


@pytest.mark.usefixtures("later")
def test_a_damaged_entry_is_made_again(tmp_path: Path) -> None:
    path = settled(tmp_path / "f", b"content")
    digest = sha256_file(path)
    for damage in (b"", b"{", b"[]", b'{"sha256": 3}'):
        entries()[0].write_bytes(damage)
        assert sha256_file(path) == digest
    assert len(entries()) == 1


def test_an_unwritable_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = settled(tmp_path / "f", b"content")
    assert sha256_file(path) == hashlib.sha256(b"content").hexdigest()


def test_names_and_digests_both_count() -> None:
    assert digest_of({"a": "1", "b": "2"}) == digest_of({"b": "2", "a": "1"})
    others = [{"a": "2", "b": "1"}, {"a": "1"}, {"a": "1", "c": "2"}, {}]
    digests = {digest_of(parts) for parts in [{"a": "1", "b": "2"}, *others]}
    assert len(digests) == 5


def test_canonical_json_is_pinned() -> None:
    value = {"b": [1, 2.5, 1e-6, True, None], "a": {"ü": "x", "": "\n"}}
    expected = '{"a":{"":"\\n","ü":"x"},"b":[1,2.5,1e-06,true,null]}'
    assert canonical_json(value) == expected.encode()


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers()))
def test_canonical_json_ignores_insertion_order(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_canonical_json_refuses_what_json_has_not(bad: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        canonical_json({"a": [bad]})
