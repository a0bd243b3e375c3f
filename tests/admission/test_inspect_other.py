"""Files that aren't ONNX: what can be said of them without unpickling, or running, any of it."""

from __future__ import annotations

import io
import json
import pickle
import random
import zipfile
from pathlib import Path
from typing import Any

import pytest
from tests.admission.hostile import outcome
from tests.golden.hostile import damage

import paritygate
from paritygate.admission.errors import AdmissionError


class Opens:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def archive(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members.items():
            file.writestr(f"m/{name.replace('__', '/')}", content)
    return path


def with_name(path: Path, name: str, content: bytes) -> Path:
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(name, content)
    return path


class TestOfTorch:
    def test_an_exported_program(self, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        from tests.torch_models import Net, old_ways

        with old_ways():
            program = torch.export.export(Net().eval(), (torch.ones(2, 4),))
            torch.export.save(program, tmp_path / "m.pt2")
        found = paritygate.inspect_model(tmp_path / "m.pt2")
        assert found["form"] == "exported"
        assert found["findings"] == []
        counted = {o["op_type"]: o["count"] for o in found["operators"]}
        assert any("linear" in op or "addmm" in op for op in counted), counted
        assert found["identity"]["bytes"] == (tmp_path / "m.pt2").stat().st_size

    def test_torchscript(self, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        from tests.torch_models import Twice, old_ways

        with old_ways():
            torch.jit.script(Twice()).save(str(tmp_path / "m.pt"))
        found = paritygate.inspect_model(tmp_path / "m.pt")
        assert found["form"] == "torchscript"
        assert found["findings"] == []
        assert found["members"] > 1

    def test_a_whole_module_would_run_code(self, tmp_path: Path) -> None:
        torch = pytest.importorskip("torch")
        from tests.torch_models import Twice

        torch.save(Twice(), tmp_path / "m.pt")
        [finding] = paritygate.inspect_model(tmp_path / "m.pt")["findings"]
        assert finding["code"] == "admission.unsafe_model"
        assert "Twice" in finding["message"]


def test_weights_alone(tmp_path: Path) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    content = len(header).to_bytes(8, "little") + header + bytes(4)
    (tmp_path / "m.safetensors").write_bytes(content)
    found = paritygate.inspect_model(tmp_path / "m.safetensors")
    assert found["form"] == "safetensors"
    assert "need a factory" in found["what"]


@pytest.mark.parametrize("protocol", [2, pickle.HIGHEST_PROTOCOL])
@pytest.mark.parametrize("is_zip", [False, True])
def test_a_hostile_pickle_never_runs(tmp_path: Path, protocol: int, is_zip: bool) -> None:
    hostile = pickle.dumps(Opens(tmp_path / "ran"), protocol)
    path = tmp_path / "m.pt"
    if is_zip:
        archive(path, **{"data.pkl": hostile, "version": b"3"})
    else:
        path.write_bytes(hostile)
    [finding] = paritygate.inspect_model(path)["findings"]
    assert finding["code"] == "admission.unsafe_model"
    assert "io.open" in finding["message"]
    assert not (tmp_path / "ran").exists()


def test_a_hostile_pickle_that_is_named_onnx_never_runs(tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(pickle.dumps(Opens(tmp_path / "ran")))
    with pytest.raises(AdmissionError, match="isn't an ONNX model"):
        paritygate.inspect_model(tmp_path / "m.onnx")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "graph",
    [
        b"not JSON",
        b"[" * 100_000,
        b'{"graph_module": {"graph": {"nodes": 7}}}',
        b'{"graph_module": {"graph": {"nodes": [1, {}]}}}',
        b"null",
    ],
)
def test_a_broken_graph_of_an_exported_program_names_no_operators(
    tmp_path: Path, graph: bytes
) -> None:
    path = archive(tmp_path / "m.pt2", archive_format=b"pt2", models__model=b"")
    with_name(path, "m/models/model.json", graph)
    assert paritygate.inspect_model(path)["operators"] == []


def test_another_archive_is_no_model(tmp_path: Path) -> None:
    archive(tmp_path / "m.pt", readme=b"hello")
    with pytest.raises(AdmissionError, match="none that torch writes"):
        paritygate.inspect_model(tmp_path / "m.pt")


def test_an_archive_of_zeros_is_not_unpacked(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt2", archive_format=b"pt2", models__model=b"")
    packed = io.BytesIO(bytes(1 << 20))
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as file,
        file.open("m/models/model.json", "w", force_zip64=True) as member,
    ):
        for _ in range(80):
            packed.seek(0)
            member.write(packed.read())
    found = paritygate.inspect_model(path)
    assert "operators" not in found, "more than 64 MiB aren't read"
    assert found["unpacked_bytes"] > 80 << 20


def test_a_damaged_archive_is_refused_or_described(tmp_path: Path) -> None:
    path = archive(tmp_path / "m.pt2", archive_format=b"pt2", models__model=b"")
    whole = with_name(path, "m/models/model.json", b'{"a": 1}').read_bytes()
    draw = random.Random(0)
    seen = set()
    for _ in range(2_000):
        path.write_bytes(damage(whole, draw))
        seen.add(outcome(path))
    assert seen == {"read", "refused"}
