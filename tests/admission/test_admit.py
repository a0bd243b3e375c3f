"""Models with all their files: what may be loaded is copied whole, what may not is never read."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from tests import models
from tests.admission.test_staging import places, special

from paritygate.admission.admit import Admitted, _copy_part, _look_at, admit_model
from paritygate.admission.errors import AdmissionError
from paritygate.admission.external import Part
from paritygate.admission.files import open_beneath
from paritygate.admission.staging import Held

X = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "staging"
    folder.mkdir()
    monkeypatch.setenv("PARITYGATE_STAGING", str(folder))
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    return made


def run_copy(held: Held[Admitted]) -> np.ndarray[Any, Any]:
    """What ONNX Runtime answers from the copy."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        str(held.value.path), options, providers=["CPUExecutionProvider"]
    )
    return np.asarray(session.run(None, {"x": X})[0])


def point(path: Path, *entries: tuple[str, str], dims: list[int] | None = None) -> None:
    """Rewrite the external data of the model's weight."""
    model = onnx.load(path, load_external_data=False)
    tensor = model.graph.initializer[0]
    del tensor.external_data[:]
    for key, value in entries:
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value
    if dims is not None:
        del tensor.dims[:]
        tensor.dims.extend(dims)
    path.write_bytes(model.SerializeToString())


def refusal(path: Path, code: str = "admission.external_data") -> str:
    with pytest.raises(AdmissionError) as caught:
        admit_model(path)
    assert caught.value.code == code
    return str(caught.value)


def link_inside(folder: Path) -> None:
    (folder / "weights.bin").rename(folder / "blob")
    (folder / "weights.bin").symlink_to("blob")


def link_hard(folder: Path) -> None:
    os.link(folder / "weights.bin", folder / "other")


def link_model(folder: Path) -> None:
    (folder / "m.onnx").rename(folder.parent / "blob")
    (folder / "m.onnx").symlink_to("../blob")


def link_inner_folder(folder: Path) -> None:
    (folder / "real").mkdir()
    (folder / "weights.bin").rename(folder / "real" / "w")
    (folder / "sub").symlink_to("real")
    point(folder / "m.onnx", ("location", "sub/w"), ("length", "64"))


@pytest.mark.parametrize("link", [link_inside, link_hard, link_model, link_inner_folder])
def test_links_within_the_folder_are_loaded_from_a_plain_copy(
    folder: Path, link: Callable[[Path], None]
) -> None:
    path = models.external_data_model(folder / "m.onnx")
    link(folder)
    with admit_model(path) as held:
        copies = [p for p in held.value.path.parent.rglob("*") if not p.is_dir()]
        assert len(copies) == 2
        assert all(p.stat().st_nlink == 1 and not p.is_symlink() for p in copies)
        assert np.array_equal(run_copy(held), X)


def test_a_copy_shares_one_place_and_goes_with_the_last_hold(folder: Path, root: Path) -> None:
    path = models.external_data_model(folder / "m.onnx")
    one, two = admit_model(path), admit_model(path)
    assert one.value is two.value
    one.close()
    assert np.array_equal(run_copy(two), X)
    two.close()
    assert places(root) == []


def test_other_weights_under_an_unchanged_model_file_are_another_model(folder: Path) -> None:
    path = models.external_data_model(folder / "m.onnx")
    with admit_model(path) as one:
        (folder / "weights.bin").write_bytes(np.full((4, 4), 2, np.float32).tobytes())
        with admit_model(path) as two:
            assert one.value.identity.sha256 == two.value.identity.sha256
            assert one.value.identity.digest != two.value.identity.digest
            assert np.array_equal(run_copy(one), X)
            assert np.array_equal(run_copy(two), np.repeat(2 * X.sum(1, keepdims=True), 4, 1))


@pytest.mark.parametrize("act", ["remove", "truncate", "overwrite"])
def test_a_copy_doesnt_follow_its_originals(folder: Path, act: str) -> None:
    path = models.external_data_model(folder / "m.onnx")
    with admit_model(path) as held:
        for file in (path, folder / "weights.bin"):
            if act == "remove":
                file.unlink()
            elif act == "truncate":
                os.truncate(file, 1)
            else:
                file.write_bytes(b"\xff" * 64)
        assert np.array_equal(run_copy(held), X)
        assert len(held.value.watched) == 2
        assert all(w.is_changed() for w in held.value.watched)


def test_a_hugging_face_cache_is_told_how_to_be_copied(tmp_path: Path) -> None:
    snapshot = tmp_path / "models--a--b" / "snapshots" / ("0" * 40)
    blobs = tmp_path / "models--a--b" / "blobs"
    snapshot.mkdir(parents=True)
    blobs.mkdir()
    path = models.external_data_model(snapshot / "m.onnx")
    for name in ("m.onnx", "weights.bin"):
        digest = hashlib.sha256((snapshot / name).read_bytes()).hexdigest()
        (snapshot / name).rename(blobs / digest)
        (snapshot / name).symlink_to(f"../../blobs/{digest}")
    text = refusal(path)
    assert "a link out of the model's folder" in text
    assert f"`cp -rL {snapshot} OTHER`" in text
    shutil.copytree(snapshot, tmp_path / "other")
    with admit_model(tmp_path / "other" / "m.onnx") as held:
        assert np.array_equal(run_copy(held), X)


@pytest.mark.parametrize("key", ["offset", "length"])
@pytest.mark.parametrize("value", ["-1", "+1", " 1", "1_0", "0x10", "1.0", "9" * 30, "٣"])
def test_numbers_that_are_none_are_refused(folder: Path, key: str, value: str) -> None:
    path = models.external_data_model(folder / "m.onnx")
    point(path, ("location", "weights.bin"), (key, value))
    assert "without a usable location, offset and length" in refusal(path)


def test_what_is_said_twice_is_refused(folder: Path) -> None:
    path = models.external_data_model(folder / "m.onnx")
    point(path, ("location", "other.bin"), ("location", "weights.bin"))
    assert "without a usable location, offset and length" in refusal(path)


def test_the_length_follows_from_dtype_and_dims_where_it_isnt_given(folder: Path) -> None:
    path = models.external_data_model(folder / "m.onnx")
    point(path, ("location", "weights.bin"))
    with admit_model(path) as held:
        assert np.array_equal(run_copy(held), X)
    point(path, ("location", "weights.bin"), ("offset", "4"))
    assert "has 64 bytes but the model reads up to byte 68" in refusal(path)
    point(path, ("location", "weights.bin"), dims=[-4, 4])
    assert "has the dims [-4, 4]" in refusal(path)


@pytest.mark.parametrize(
    ("location", "told"),
    [
        ("m.onnx", "is the model file itself"),
        ("./m.onnx", "is the model file itself"),
        ("sub/../weights.bin", "outside the model's folder"),
        ("./weights.bin/../../model/weights.bin", "outside the model's folder"),
        ("*/_ORT_MEM_ADDR_/*", "means memory and no file"),
        ("weights.bin/x", "goes through a link or a file that is no folder"),
        ("a" * 300, "can't be read (File name too long)"),
        ("loop", "isn't a regular file"),
    ],
)
def test_locations_that_make_no_sense_are_refused(folder: Path, location: str, told: str) -> None:
    path = models.external_data_model(folder / "m.onnx")
    (folder / "sub").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "*" / "_ORT_MEM_ADDR_").mkdir(parents=True)
    (folder / "*" / "_ORT_MEM_ADDR_" / "*").write_bytes(b"\0" * 64)
    point(path, ("location", location), ("length", "64"))
    assert told in refusal(path)


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.parametrize("kind", ["fifo", "folder", "socket", "device"])
def test_external_data_that_is_no_plain_file_is_refused_at_once(folder: Path, kind: str) -> None:
    path = models.external_data_model(folder / "m.onnx")
    special(folder, kind)
    point(path, ("location", kind), ("length", "64"))
    started = time.monotonic()
    text = refusal(path)
    assert "isn't a regular file" in text or "a link out of the model's folder" in text
    assert time.monotonic() - started < 5


def test_a_link_that_was_put_on_the_way_is_not_followed(tmp_path: Path, folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "w").write_bytes(b"x")
    os.close(open_beneath(folder, ("sub", "w")))
    (folder / "sub").rename(tmp_path / "outside")
    (folder / "sub").symlink_to(tmp_path / "outside")
    with pytest.raises(OSError, match="Not a directory"):
        open_beneath(folder, ("sub", "w"))
    (folder / "w").symlink_to(tmp_path / "outside" / "w")
    with pytest.raises(OSError, match="isn't a regular file"):
        open_beneath(folder, ("w",))


def test_a_file_that_was_exchanged_after_it_was_proved_is_refused(folder: Path) -> None:
    path = models.external_data_model(folder / "m.onnx")
    parts = [Part("tensor 'weight'", "weights.bin", 0, 64)]
    then = _look_at(path, folder, parts)
    (folder / "new").write_bytes(b"\0" * 64)
    (folder / "new").replace(folder / "weights.bin")
    with pytest.raises(AdmissionError, match="changed while it was copied") as caught:
        _copy_part(path, folder, parts, then, folder / "copy", 64)
    assert caught.value.code == "admission.changed"


def two_ranges(path: Path, *ranges: tuple[int, int]) -> None:
    """A model with one weight of bytes for each range of one file."""
    path.with_name("w.bin").write_bytes(bytes(range(64)))
    names = [f"w{i}" for i in range(len(ranges))]
    models.save_model(
        path,
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        {
            name: np.zeros(stop - start, np.uint8)
            for name, (start, stop) in zip(names, ranges, strict=True)
        },
    )
    model = onnx.load(path)
    for tensor, (start, stop) in zip(model.graph.initializer, ranges, strict=True):
        models.set_external(tensor, "w.bin", stop - start, start)
    path.write_bytes(model.SerializeToString())


@pytest.mark.parametrize(
    "ranges",
    [
        [(0, 32), (32, 64)],
        [(0, 32), (0, 32)],
        [(0, 64), (0, 16), (16, 32), (60, 64)],
        [(8, 8), (0, 64)],
        [(0, 16), (0, 64), (20, 30), (20, 30)],
    ],
)
def test_ranges_may_be_shared_or_lie_within_each_other(
    folder: Path, ranges: list[tuple[int, int]]
) -> None:
    two_ranges(folder / "m.onnx", *ranges)
    with admit_model(folder / "m.onnx", check=False) as held:
        assert held.value.identity.files[0].bytes == 64


@pytest.mark.parametrize(
    "ranges", [[(0, 33), (32, 64)], [(10, 64), (0, 11)], [(0, 64), (0, 16), (8, 24)]]
)
def test_ranges_that_share_a_part_are_refused(folder: Path, ranges: list[tuple[int, int]]) -> None:
    two_ranges(folder / "m.onnx", *ranges)
    assert "which share a part" in refusal(folder / "m.onnx")


def context_model(path: Path, location: str) -> None:
    models.save_model(
        path,
        [
            helper.make_node(
                "EPContext",
                ["x"],
                ["y"],
                name="compiled",
                domain="com.microsoft",
                embed_mode=0,
                ep_cache_context=location,
            )
        ],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        opsets={"com.microsoft": 1},
    )


def test_binaries_of_compiled_subgraphs_belong_to_the_model(folder: Path) -> None:
    path = folder / "m.onnx"
    context_model(path, "m_ctx.bin")
    assert "node 'compiled' has external data at 'm_ctx.bin', which is missing" in refusal(path)
    (folder / "m_ctx.bin").write_bytes(b"one")
    with admit_model(path, check=False) as one:
        assert (one.value.path.parent / "m_ctx.bin").read_bytes() == b"one"
        (folder / "m_ctx.bin").write_bytes(b"two")
        with admit_model(path, check=False) as two:
            assert one.value.identity.digest != two.value.identity.digest
    context_model(path, "../m_ctx.bin")
    assert "outside the model's folder" in refusal(path)


def test_a_model_file_beyond_what_protobuf_holds_is_told_at_once(folder: Path, root: Path) -> None:
    with (folder / "m.onnx").open("wb") as file:
        file.truncate(1 << 31)
    started = time.monotonic()
    text = refusal(folder / "m.onnx", "admission.invalid_model")
    assert "has 2147483648 bytes, but a model file ends at 2 GiB" in text
    assert "save_as_external_data=True" in text
    assert time.monotonic() - started < 2
    assert places(root) == []


def test_more_files_than_a_process_may_open(folder: Path) -> None:
    count = 200
    path = models.save_model(
        folder / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch", 4])},
        {"y": (models.FLOAT, ["batch", 4])},
        {f"w{i}": np.zeros(1, np.uint8) for i in range(count)},
    )
    model = onnx.load(path)
    for i, tensor in enumerate(model.graph.initializer):
        (folder / f"w{i}").write_bytes(bytes([i]))
        models.set_external(tensor, f"w{i}", 1)
    path.write_bytes(model.SerializeToString())
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
    try:
        with admit_model(path, check=False) as held:
            assert len(held.value.identity.files) == count
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_what_is_refused_leaves_nothing(folder: Path, root: Path) -> None:
    path = models.external_data_model(folder / "m.onnx")
    (folder / "weights.bin").unlink()
    refusal(path)
    path.write_bytes(b"no model")
    refusal(path, "admission.invalid_model")
    models.save_model(
        path,
        [helper.make_node("NoSuchOperator", ["x"], ["y"])],
        {"x": (models.FLOAT, ["batch"])},
        {"y": (models.FLOAT, ["batch"])},
    )
    text = refusal(path, "admission.invalid_model")
    assert str(root) not in text
    assert str(path) in text
    assert places(root) == []


def test_sparse_initializers_cant_point_out_of_the_folder(folder: Path) -> None:
    path = models.scale_model(folder / "m.onnx")
    model = onnx.load(path)
    values = helper.make_tensor("sparse", models.FLOAT, [4], np.ones(4, np.float32))
    models.set_external(values, "/etc/hostname", 1)
    indices = helper.make_tensor("i", TensorProto.INT64, [4], [0, 1, 2, 3])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [9]))
    path.write_bytes(model.SerializeToString())
    assert "which is absolute" in refusal(path)
