"""Machine code of kernels on disk, of a chip that isn't there: all but its launch."""

from __future__ import annotations

import hashlib
import importlib
import pickle
import re
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import types
from tests.gpu.compiled.ptx import ptx_of

from paritygate.gpu import failing, kept, widen
from paritygate.gpu.device import kernel
from paritygate.kernels import _cache
from paritygate.kernels.compiling import compiled_for

CHIP = ((9, 0), 13050)
FLOATS, DOUBLES = (types.uint8[::1], types.float32[::1]), (types.uint8[::1], types.float64[::1])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where code is kept; it is compiled for a chip that is made up."""
    device = SimpleNamespace(compute_capability=CHIP[0], id=0)
    numba = importlib.import_module("numba.cuda.dispatcher")
    monkeypatch.setattr(numba, "get_current_device", lambda: device)
    monkeypatch.setattr(numba._Kernel, "bind", lambda made: made.library.get_cubin())
    devices = importlib.import_module("numba.cuda.cudadrv.devices")
    monkeypatch.setattr(devices, "get_context", lambda: SimpleNamespace(device=device))
    monkeypatch.setattr(kept, "chip", lambda: CHIP)
    monkeypatch.setattr(kept, "kept_folder", lambda: tmp_path)
    return tmp_path


def fresh(**options: Any) -> Any:
    """The same kernel as a process that starts now sees it."""
    made = kernel(widen.widen_flags.py_func)
    made.targetoptions.update(options)
    return made


def code(made: Any, arguments: tuple[Any, ...] = FLOATS) -> bytes:
    return bytes(made.compile(arguments).library.get_cubin().code)


def hits(made: Any) -> int:
    return sum(made.stats.cache_hits.values())


def test_a_kernel_is_compiled_once(folder: Path) -> None:
    compiled = code(fresh())
    before, _ = compiled_for()
    again = fresh()
    assert code(again) == compiled
    assert hits(again) == 1
    assert compiled_for() == (before, False)
    assert again.overloads[FLOATS].signature.args == FLOATS
    assert code(again, DOUBLES) != compiled
    assert hits(again) == 1
    assert len(list(folder.iterdir())) == 2


def test_a_launch_takes_the_kernel_that_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[bytes] = []
    numba = importlib.import_module("numba.cuda.dispatcher")
    monkeypatch.setattr(
        numba._Kernel,
        "launch",
        lambda made, *_: launched.append(bytes(made.library.get_cubin().code)),
    )
    kernels = fresh(), fresh()
    for made in kernels:
        for _ in range(2):
            made[2, 32](np.zeros(5, np.uint8), np.zeros(5, np.float32))
    assert [hits(made) for made in kernels] == [0, 1]
    assert launched == launched[:1] * 4
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("how", ["cut", "changed", "of another kernel", "empty"])
def test_a_file_that_is_not_what_was_written_is_made_anew(folder: Path, how: str) -> None:
    code(fresh())
    (path,) = folder.iterdir()
    whole = path.read_bytes()
    if how == "of another kernel":
        code(fresh(), DOUBLES)
        (other,) = set(folder.iterdir()) - {path}
        path.write_bytes(other.read_bytes())
    else:
        changed = whole[:-1] + bytes([whole[-1] ^ 1])
        path.write_bytes({"cut": whole[: len(whole) // 2], "changed": changed, "empty": b""}[how])
    reader, again = fresh(), fresh()
    compiled = code(reader)
    assert hits(reader) == 0
    assert code(again) == compiled
    assert hits(again) == 1


@pytest.mark.parametrize("states", [None, b"", pickle.dumps({"another": 1})])
def test_a_file_of_something_else_with_its_digest_is_made_anew(
    folder: Path, states: bytes | None
) -> None:
    code(fresh())
    (path,) = folder.iterdir()
    key = fresh()._cache._key(FLOATS)
    content = pickle.dumps((1, 2, 3) if states is None else (key, states))
    path.write_bytes(hashlib.sha256(content).digest() + content)
    reader, again = fresh(), fresh()
    compiled = code(reader)
    assert hits(reader) == 0
    assert code(again) == compiled
    assert hits(again) == 1


def test_what_cannot_be_written_down_is_compiled(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(made: object) -> None:
        raise TypeError("it can't be pickled")

    numba = importlib.import_module("numba.cuda.dispatcher")
    monkeypatch.setattr(numba._Kernel, "_reduce_states", refuse)
    assert code(fresh())
    assert not list(folder.iterdir())


def test_code_is_of_one_chip_compiler_and_set_of_options(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {fresh()._cache._key(FLOATS), fresh()._cache._key(DOUBLES)}
    keys |= {fresh(**one)._cache._key(FLOATS) for one in ({"fastmath": True}, {"opt": False})}
    version, distributions, files = kept.made_by()
    (path, size, changed), *others = files
    for made_by in (
        ("cpython-399", distributions, files),
        (version, (("numba", "0.1"), *distributions[1:]), files),
        (version, distributions, ((path, size + 1, changed), *others)),
        (version, distributions, ((path, size, changed + 1), *others)),
    ):
        monkeypatch.setattr(kept, "made_by", lambda made_by=made_by: made_by)
        keys.add(fresh()._cache._key(FLOATS))
    for chip in (((8, 0), 13050), ((9, 0), 13060)):
        monkeypatch.setattr(kept, "chip", lambda chip=chip: chip)
        keys.add(fresh()._cache._key(FLOATS))
    assert len(keys) == 10
    assert None not in keys


def test_what_is_made_of_something_else_is_not_kept(folder: Path) -> None:
    def made(out: Any) -> None:
        out[0] = 1

    code(kernel(made), (types.float32[::1],))
    assert fresh(link=("other.cu",))._cache._key(FLOATS) is None
    assert not list(folder.iterdir())


def test_a_chip_that_cannot_be_asked_is_no_reason_to_fail(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("no driver")

    monkeypatch.setattr(kept, "chip", refuse)
    assert code(fresh())
    assert not list(folder.iterdir())


def test_without_a_home_a_kernel_is_compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(kept, "kept_folder", refuse)
    assert code(fresh())


def test_kernels_of_one_text_are_told_apart() -> None:
    names = [one._cache._name for one in (failing.keep_failing, failing.keep_failing_whole)]
    assert names == [
        "failing._keeper.keep_failing-failing.judge",
        "failing._keeper.keep_failing-failing.judge_whole",
    ]


@pytest.mark.parametrize("changed", ["gpu/widen.py", "gpu/device.py", "kernels/scalar.py"])
def test_the_folder_stands_for_all_sources(changed: str, tmp_path: Path) -> None:
    package = Path(kept.__file__).parents[1]
    folders = [tmp_path / name for name in ("gpu", "kernels")]
    for folder in folders:
        shutil.copytree(package / folder.name, folder)
    unchanged = _cache.source_digest(*folders)
    assert kept.kept_folder().name == f"gpu-{unchanged}"
    with (tmp_path / changed).open("a") as file:
        file.write("\n")
    assert _cache.source_digest(*folders) != unchanged


def test_compiling_is_told_while_it_lasts(folder: Path) -> None:
    before, is_compiling = compiled_for()
    assert not is_compiling
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(code, fresh())
        seen = []
        while not running.done():
            seen.append(compiled_for())
            time.sleep(0.001)
        running.result()
    during = [seconds for seconds, was_compiling in seen if was_compiling]
    assert during == sorted(during)
    assert before < during[-1] <= compiled_for()[0]


def test_what_runs_is_the_code_that_is_read(folder: Path) -> None:
    made = fresh().compile(FLOATS)
    (ran,) = made.library._ptx_cache.values()
    assert not made.library._ltoir_cache

    def plain(ptx: str) -> str:
        ptx = re.sub(r"_Z\w+widen_flags\w+", "NAME", ptx)
        return re.sub(r"//.*|sm_90a?", "", ptx).strip()

    assert plain(ran[0]) == plain(ptx_of(widen.widen_flags, FLOATS, "sm_90"))
