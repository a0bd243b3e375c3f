"""Samples of different shape, of every dtype: from the pack through functions to the shard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError
from paritygate.golden.pack import open_pack

LENGTHS = [3, 1, 0, 3, 2, 1, 5, 3]
NAMES = ("float16", "bfloat16", "float8_e5m2", "int4", "uint4", "string")

SIDES = """
def ref(given):
    return {"y": given["x"], "cut": [row[: at % 3] for at, row in enumerate(given["x"])]}

def cand(given):
    y = given["x"].copy()
    if y.shape[1] == 5:
        y[0, 4] = "other" if y.dtype == object else y.dtype.type(int(y[0, 4]) ^ 1)
    return {"y": y, "cut": [row[: at % 3] for at, row in enumerate(given["x"])]}
"""


def samples(name: str) -> list[Any]:
    rng = np.random.default_rng(2)
    rows = [rng.integers(0, 8, n).tolist() for n in LENGTHS]
    return [[f"t{v}" for v in row] for row in rows] if name == "string" else rows


def column(name: str) -> tuple[pa.Array, dict[str, str]]:
    rows = samples(name)
    if name == "string":
        return pa.array(rows, pa.list_(pa.string())), {}
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    if name == "float16":
        kind: pa.DataType = pa.float16()
        flat = [np.array(row, dtype).tolist() for row in rows]
        return pa.array([[np.float16(v) for v in row] for row in flat], pa.list_(kind)), {}
    if name in ("int4", "uint4"):
        kind = pa.int8() if name == "int4" else pa.uint8()
        return pa.array(rows, pa.list_(kind)), {"paritygate.dtype": name}
    bits = [np.array(row).astype(dtype).view(f"u{dtype.itemsize}").tolist() for row in rows]
    kind = pa.from_numpy_dtype(np.dtype(f"u{dtype.itemsize}"))
    return pa.array(bits, pa.list_(kind)), {"paritygate.dtype": name}


@pytest.mark.parametrize("name", NAMES)
def test_every_dtype_in_samples_of_different_shape(name: str, tmp_path: Path) -> None:
    array, metadata = column(name)
    fields = {"in.x": metadata} if metadata else {}
    write_pack(tmp_path / "g.arrow", range(8), columns={"in.x": array}, metadata=fields)
    (tmp_path / "sides.py").write_text(SIDES)
    plan = {
        "golden": "g.arrow",
        "dims": {"seq": {"min": 0, "max": 9}, "part": {"min": 0, "max": 9}},
        "inputs": {"x": {"shape": ["batch", "seq"]}},
        "outputs": {"y": {"shape": ["batch", "seq"]}, "cut": {"shape": ["batch", "part"]}},
        "runners": {"a": "sides:ref", "b": "sides:cand"},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
    }
    result = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=tmp_path / "runs")
    found = [(r.code, r.output, r.ids) for r in result.reasons]
    assert found == [("tolerance.exceeded", "y", (6,))], result.explain()
    figures = result.summary["stages"][0]["outputs"]["y"]
    assert (figures["elements"], figures["failing_elements"]) == (sum(LENGTHS), 1)
    (path,) = (Path(str(result.folder)) / "failures").glob("*-00000.arrow")
    with open_pack([path], tmp_path, outputs={"ref": "ref.y", "cand": "cand.y"}) as pack:
        pack.scan_ids()
        assert {pack.inputs["x"].dtype, pack.outputs["cand"].dtype} == {name}
        wanted = samples(name)[6]
        assert pack.input("x", 0, 1)[0].tolist() == wanted
        assert pack.output("ref", 0, 1)[0].tolist() == wanted
        assert pack.output("cand", 0, 1)[0].tolist()[:4] == wanted[:4]
        assert pack.output("cand", 0, 1)[0].tolist()[4] != wanted[4]


@pytest.mark.parametrize(("name", "kind"), [("int4", pa.int8()), ("uint4", pa.uint8())])
def test_a_byte_beyond_four_bits_names_its_sample(
    name: str, kind: pa.DataType, tmp_path: Path
) -> None:
    array = pa.array([[1], [], [2, 3, 16], [4]], pa.list_(kind))
    meta = {"in.x": {"paritygate.dtype": name}}
    write_pack(tmp_path / "g.arrow", range(4), columns={"in.x": array}, metadata=meta)
    with (
        open_pack(["g.arrow"], tmp_path, varying=["x"]) as pack,
        pytest.raises(GoldenError, match=r"sample 2 .*16") as caught,
    ):
        pack.scan_ids()
    assert caught.value.code == "golden.value"
