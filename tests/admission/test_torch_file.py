"""Files of torch told apart without torch: by members of an archive and words of a pickle."""

from __future__ import annotations

import collections
import pickle
import zipfile
from pathlib import Path

import pytest

from paritygate.admission.torch_file import foreign_names, form_of_file, pickled_names


def archive(path: Path, *members: str, pickled: bytes = b"") -> Path:
    with zipfile.ZipFile(path, "w") as file:
        for name in members:
            file.writestr(name, pickled if name.endswith("data.pkl") else b"x")
    return path


PLAIN = pickle.dumps({"a": 1, "b": [2.0, "three"]})


@pytest.mark.parametrize(
    ("members", "form"),
    [
        (("m/data.pkl", "m/version"), "weights"),
        (("m/data.pkl", "m/constants.pkl", "m/code/__torch__.py"), "torchscript"),
        (("m/models/model.json", "m/archive_format"), "exported"),
        (("version", "serialized_exported_program.json"), "exported"),
        (("m/other",), "other"),
        ((), "other"),
    ],
)
def test_archives(tmp_path: Path, members: tuple[str, ...], form: str) -> None:
    assert form_of_file(archive(tmp_path / "m.pt", *members, pickled=PLAIN)) == form


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_of_more_than_tensors_names_it(tmp_path: Path, protocol: int) -> None:
    pickled = pickle.dumps([Path("x"), collections.Counter()], protocol)
    path = archive(tmp_path / "m.pt", "m/data.pkl", pickled=pickled)
    assert form_of_file(path) == "pickle"
    names = pickled_names(path)
    assert any("Path" in name for name in names), names
    assert any("Counter" in name for name in names), names


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_plain_values_name_nothing(protocol: int) -> None:
    values = {"a": [1, 2.0, "x", None, True], "b": (3,)}
    assert foreign_names(pickle.dumps(values, protocol)) == []


def test_a_memoised_name_is_no_way_around() -> None:
    pickled = pickle.dumps([Path("a"), "pathlib", Path("b")], 4)
    assert any("Path" in name for name in foreign_names(pickled))


@pytest.mark.parametrize(
    ("content", "form"),
    [
        (b"", "other"),
        (b"text", "other"),
        (b"\x80\x02]q\x00.", "pickle"),
        ((2).to_bytes(8, "little") + b"{}", "safetensors"),
        ((900).to_bytes(8, "little") + b"{}", "other"),
        (b"PK\x03\x04", "other"),
    ],
)
def test_files_that_are_no_archives(tmp_path: Path, content: bytes, form: str) -> None:
    (tmp_path / "m").write_bytes(content)
    assert form_of_file(tmp_path / "m") == form
