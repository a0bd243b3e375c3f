"""Copies hold what was digested, whatever happens to their originals; nothing is left behind."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from paritygate.admission.errors import AdmissionError
from paritygate.admission.place import make_place, sweep
from paritygate.admission.staging import stage_file

MIB = 1 << 20


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where private places are made: a folder of the test's own."""
    folder = tmp_path / "staging"
    folder.mkdir()
    monkeypatch.setenv("PARITYGATE_STAGING", str(folder))
    return folder


def places(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir())


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"x",
        b"\0",
        b"a" * (MIB - 1),
        b"\0" * MIB,
        b"b" + b"\0" * (3 * MIB) + b"c",
        b"\0" * (2 * MIB + 1),
        os.urandom(2 * MIB + 17),
    ],
    ids=len,
)
def test_a_copy_is_the_file_with_its_digest(tmp_path: Path, root: Path, content: bytes) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(content)
    with stage_file(source) as held:
        copy = held.value
        assert copy.path.read_bytes() == content
        assert (copy.bytes, copy.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        assert copy.path.name == "w.bin"
        assert copy.path != source
        assert copy.source == source
        assert copy.path.is_relative_to(root)
        assert {p.stat().st_mode & 0o077 for p in [copy.path, *root.iterdir()]} == {0}
        assert pickle.loads(pickle.dumps(copy)) == copy
    assert places(root) == []


def test_zeros_take_no_room(tmp_path: Path) -> None:
    source = tmp_path / "w.bin"
    with source.open("wb") as file:
        file.truncate(32 * MIB)
    with stage_file(source) as held:
        assert held.value.path.stat().st_blocks * 512 < MIB


@pytest.mark.parametrize("change", ["overwrite", "truncate", "replace", "remove"])
def test_what_happens_to_the_original_changes_no_copy(tmp_path: Path, change: str) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"before" * 1000)
    with stage_file(source) as held:
        if change == "overwrite":
            with source.open("r+b") as file:
                file.write(b"after")
        elif change == "truncate":
            os.truncate(source, 1)
        elif change == "replace":
            (tmp_path / "new").write_bytes(b"after")
            (tmp_path / "new").replace(source)
        else:
            source.unlink()
        assert held.value.path.read_bytes() == b"before" * 1000
        assert held.value.watched[0].is_changed()


def test_links_are_followed_for_a_file_that_the_plan_names(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"x")
    (tmp_path / "link").symlink_to("blob")
    os.link(tmp_path / "blob", tmp_path / "hard")
    for name in ("link", "hard"):
        with stage_file(tmp_path / name) as held:
            assert held.value.path.stat().st_nlink == 1
            assert held.value.path.name == name
            assert not held.value.path.is_symlink()


def test_one_copy_for_all_that_hold_it(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"x" * MIB)
    with stage_file(source) as one:
        with stage_file(tmp_path / "." / "w.bin") as two:
            assert two.value == one.value
        assert one.value.path.exists()
        one.close()
        one.close()
    assert places(root) == []


def test_threads_that_ask_at_once_share_one_copy(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(os.urandom(8 * MIB))
    held: list[object] = []
    threads = [threading.Thread(target=lambda: held.append(stage_file(source))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({h.value.path for h in held}) == 1  # type: ignore[attr-defined]
    for h in held[1:]:
        h.close()  # type: ignore[attr-defined]
    assert len(places(root)) == 1
    held[0].close()  # type: ignore[attr-defined]
    assert places(root) == []


def test_a_file_that_changed_is_copied_anew(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"one")
    with stage_file(source) as one:
        source.write_bytes(b"two!")
        with stage_file(source) as two, stage_file(source) as three:
            assert one.value.path.read_bytes() == b"one"
            assert two.value.path.read_bytes() == b"two!"
            assert three.value == two.value
        one.close()
    assert places(root) == []


def test_another_digest_is_refused_with_both(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"x")
    digest = hashlib.sha256(b"x").hexdigest()
    with stage_file(source, digest.upper()):
        pass
    with pytest.raises(AdmissionError, match=f"has SHA-256 {digest}, but the plan says {'0' * 64}"):
        stage_file(source, "0" * 64)
    assert places(root) == []


def special(folder: Path, kind: str) -> Path:
    path = folder / kind
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(folder)  # the name of a socket is short
        try:
            socket.socket(socket.AF_UNIX).bind(kind)
        finally:
            os.chdir(here)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    return path


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "device"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, root: Path, kind: str) -> None:
    with pytest.raises(AdmissionError, match="isn't a regular file"):
        stage_file(special(tmp_path, kind))
    assert places(root) == []


@pytest.mark.parametrize("name", ["absent", "a" * 300, "a\0b"])
def test_what_is_not_there_is_refused(tmp_path: Path, root: Path, name: str) -> None:
    with pytest.raises(AdmissionError, match="can't be read"):
        stage_file(tmp_path / name)
    assert places(root) == []


def test_a_file_that_is_written_meanwhile_is_refused(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(os.urandom(48 * MIB))
    stop = threading.Event()

    def write() -> None:
        with source.open("r+b") as file:
            while not stop.is_set():
                os.pwrite(file.fileno(), b"x", 0)
                time.sleep(0.001)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        with pytest.raises(AdmissionError, match="changed while it was copied") as caught:
            stage_file(source)
    finally:
        stop.set()
        writer.join()
    assert caught.value.code == "admission.changed"
    assert caught.value.is_machine_fault
    assert places(root) == []


def test_too_little_room_is_told_before_anything_is_written(tmp_path: Path, root: Path) -> None:
    free = os.statvfs(root)
    source = tmp_path / "w.bin"
    with source.open("wb") as file:
        file.truncate(free.f_bavail * free.f_frsize + (1 << 40))
    with pytest.raises(
        AdmissionError, match=r"needs [\d.]+ GiB in \S+/staging, where [\d.]+ GiB"
    ) as caught:
        stage_file(source)
    assert "PARITYGATE_STAGING" in str(caught.value)
    assert caught.value.code == "admission.staging"
    assert places(root) == []


def run_python(code: str, *args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)


_LIMITED = """
import resource, sys
from pathlib import Path
from paritygate.admission.errors import AdmissionError
from paritygate.admission.staging import stage_file
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
try:
    stage_file(Path(sys.argv[1]))
except AdmissionError as e:
    print(e.code, e)
"""


def test_no_room_in_the_middle_says_the_same(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"x" * (4 * MIB))
    told = run_python(_LIMITED, source).stdout
    assert told.startswith("admission.staging ")
    assert f"needs 4.0 MiB in {root}, where there is less" in told
    assert "PARITYGATE_STAGING" in told
    assert places(root) == []
    assert source.read_bytes() == b"x" * (4 * MIB)


@pytest.mark.parametrize("named", ["absent", "file"])
def test_a_root_that_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (tmp_path / "file").write_bytes(b"x")
    monkeypatch.setenv("PARITYGATE_STAGING", str(tmp_path / named))
    with pytest.raises(AdmissionError, match="PARITYGATE_STAGING names .*isn't a folder"):
        stage_file(tmp_path / "file")


_HOLDING = """
import os, sys, time
from pathlib import Path
from paritygate.admission.staging import stage_file
held = stage_file(Path(sys.argv[1]))
print(held.value.path, flush=True)
time.sleep(float(sys.argv[2]))
"""


def start_holder(source: Path, seconds: float = 60) -> tuple[subprocess.Popen[str], Path]:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDING, str(source), str(seconds)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    return holder, Path(holder.stdout.readline().strip())


def end(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.communicate()


def test_a_killed_process_is_swept_by_the_next_and_a_live_one_is_not(
    tmp_path: Path, root: Path
) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"x")
    killed, left = start_holder(source)
    live, kept = start_holder(source)
    try:
        assert left != kept
        assert left.exists()
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert left.exists()
        with stage_file(source):
            assert not left.exists()
            assert kept.read_bytes() == b"x"
    finally:
        end(killed)
        end(live)
    sweep()
    assert places(root) == []


def test_a_process_that_ends_without_letting_go_leaves_nothing(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"x")
    holder, path = start_holder(source, seconds=0)
    assert holder.wait(30) == 0
    holder.communicate()
    assert not path.exists()
    assert places(root) == []


_FORKING = """
import os, sys
from pathlib import Path
from paritygate.admission.staging import stage_file
held = stage_file(Path(sys.argv[1]))
if os.fork() == 0:
    held.close()
    with stage_file(Path(sys.argv[1])) as own:
        assert own.value.path != held.value.path
    sys.exit(0)
os.wait()
assert held.value.path.read_bytes() == b"x"
held.close()
assert not held.value.path.exists()
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_removes_nothing_of_its_parent(tmp_path: Path, root: Path) -> None:
    source = tmp_path / "w.bin"
    source.write_bytes(b"x")
    run_python(_FORKING, source)
    assert places(root) == []


def test_only_places_are_swept(tmp_path: Path, root: Path) -> None:
    (root / "other").mkdir()
    (root / "paritygate-staging-file").write_bytes(b"x")
    (root / "paritygate-staging-link").symlink_to(tmp_path)
    (root / "paritygate-staging-stale").mkdir()
    (root / "paritygate-staging-stale" / "w.bin").write_bytes(b"x")
    place = make_place()
    sweep(root)
    assert places(root) == sorted(
        ["other", "paritygate-staging-file", "paritygate-staging-link", place.folder.name]
    )
    assert tmp_path.exists()
    place.remove()
