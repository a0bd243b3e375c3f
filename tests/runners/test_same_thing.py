"""Which functions and recordings are the same thing, whatever they are called."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.packs import write_pack
from tests.runners.contract import context_of, spec_of

import paritygate
from paritygate.golden.pack import open_pack
from paritygate.runners.python import PythonRunner
from paritygate.runners.registry import prepare

SOURCE = """
import functools
from helper import shared, shared as renamed

def ident(d): return d
alias = ident
def make(k): return lambda d: {n: a * k for n, a in d.items()}
double, triple = make(2), make(3)
again = double
one, other = (lambda d: d), (lambda d: d)
class Model:
    def __init__(self, k): self.k = k
    def __call__(self, d): return d
    def plain(self, d=None): return d
    @staticmethod
    def still(d): return d
    same = still
small, large = Model(1), Model(2)
little = small
Kind = Model
part = functools.partial(ident)
twin = part
@functools.wraps(ident)
def wrapped(d): return ident(d)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "helper.py").write_text("def shared(d): return d\n")
    for name in ("mod", "copied"):
        (tmp_path / f"{name}.py").write_text(SOURCE)
    (tmp_path / "altered.py").write_text(SOURCE + "#\n")
    (tmp_path / "second.py").write_text("from helper import shared\n")
    for package in ("left", "right"):
        (tmp_path / package).mkdir()
        for name in ("mod", "copied"):
            (tmp_path / package / f"{name}.py").write_text("def ident(d): return d\n")
    yield tmp_path
    for name in [n for n in sys.modules if n.split(".")[0] in ("helper", "left", "right")]:
        del sys.modules[name]


def identity(folder: Path, call: str, **options: object) -> str:
    return prepare(spec_of({"call": call, **options}), context_of(folder)).identity


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mod:ident", "mod:alias"),
        ("mod:ident", "copied:ident"),
        ("mod:ident", "copied:alias"),
        ("mod:double", "mod:again"),
        ("mod:double", "copied:again"),
        ("mod:small", "mod:little"),
        ("mod:part", "mod:twin"),
        ("mod:Model.still", "mod:Kind.still"),
        ("mod:Model.still", "mod:Model.same"),
        ("mod:shared", "mod:renamed"),
        ("mod:shared", "second:shared"),
        ("left.mod:ident", "left.copied:ident"),
        ("copy:deepcopy", "copy:deepcopy"),
    ],
)
def test_the_same_thing(folder: Path, one: str, other: str) -> None:
    assert identity(folder, one) == identity(folder, other)
    assert identity(folder, one) == identity(folder, other, outputs=["y"])
    assert identity(folder, one) != identity(folder, other, batch_size=3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("mod:ident", "altered:ident"),
        ("mod:double", "mod:triple"),
        ("mod:one", "mod:other"),
        ("mod:small", "mod:large"),
        ("mod:ident", "mod:part"),
        ("mod:ident", "mod:wrapped"),
        ("mod:Model.still", "mod:Model.plain"),
        ("left.mod:ident", "right.mod:ident"),
        ("copy:copy", "copy:deepcopy"),
        ("math:floor", "math:ceil"),
    ],
)
def test_another_thing(folder: Path, one: str, other: str) -> None:
    assert identity(folder, one) != identity(folder, other)


def test_a_function_object_is_itself_whatever_its_outputs_are_called() -> None:
    def f(d: dict[str, np.ndarray]) -> np.ndarray:
        return d["x"]

    one, named = (
        PythonRunner.from_callable("r", f),
        PythonRunner.from_callable("s", f, outputs=["y"]),
    )
    assert one.identity == named.identity
    assert one.identity != PythonRunner.from_callable("r", lambda d: f(d)).identity


def test_a_copy_against_its_original_is_held(folder: Path) -> None:
    write_pack(folder / "g.arrow", [1, 2], {"x": np.ones((2, 2), np.float32)})
    (folder / "plan.toml").write_text(
        'golden = "g.arrow"\n'
        "[runners]\n"
        'a = "mod:ident"\n'
        'b = "copied:alias"\n'
        "[[stages]]\n"
        'reference = "a"\n'
        'candidate = "b"\n'
        "outputs.x = { atol = 0.0, rtol = 0.0 }\n"
    )
    result = paritygate.run(folder / "plan.toml", out=None)
    assert [r.code for r in result.reasons] == ["policy.same_runner"]


def test_a_recording_is_the_same_in_any_order_of_its_files(tmp_path: Path) -> None:
    for at, name in enumerate(("a", "b", "c")):
        ids = [2 * at, 2 * at + 1]
        write_pack(tmp_path / f"{name}.arrow", ids, outputs={"y": np.array(ids, np.float32)})
    write_pack(tmp_path / "golden.arrow", range(4), {"x": np.zeros(4)})

    def recording(*names: str) -> str:
        paths = [f"{name}.arrow" for name in names]
        with open_pack(["golden.arrow"], tmp_path) as golden:
            return prepare(spec_of({"path": paths}), context_of(tmp_path, golden)).identity

    assert recording("a", "b") == recording("b", "a")
    assert recording("a", "b") != recording("a", "c")
    assert recording("a", "b") != recording("a")
