"""Every dtype from the inputs to the verdict, the shard and its replay as a recording."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pyarrow as pa
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.golden.pack import open_pack

NARROW = (
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)
HALF_BYTES = ("int4", "uint4")
STORED = {"bfloat16": np.uint16, "int4": np.int8, "float16": np.float16}


def values_of(name: str, rows: int = 40) -> np.ndarray:
    if name == "string":
        return np.array([[f"t{i % 7}", "\u00fc" * (i % 3)] for i in range(rows)], object)
    numbers = np.random.default_rng(3).integers(0, 8, (rows, 2))
    return numbers.astype(np.dtype(getattr(ml_dtypes, name, None) or name))


def stored(values: np.ndarray) -> tuple[np.ndarray | pa.Array, dict[str, str]]:
    """As a pack holds them, written by pyarrow alone."""
    name = values.dtype.name
    if name == "object":
        return pa.array(values.tolist(), pa.list_(pa.string(), 2)), {}
    if name in HALF_BYTES:
        return values.astype(name.replace("4", "8")), {"paritygate.dtype": name}
    bits = values.view(STORED.get(name, np.uint8))
    return bits, {} if name == "float16" else {"paritygate.dtype": name}


def changed(values: np.ndarray) -> np.ndarray:
    """The same but for one element of sample 3."""
    other = values.copy()
    other[3, 1] = "other" if values.dtype == object else values.dtype.type(int(values[3, 1]) ^ 1)
    return other


@pytest.mark.parametrize("name", [*NARROW, *HALF_BYTES, "string"])
class TestEveryDtype:
    def test_functions_take_and_answer_it(self, name: str, tmp_path: Path) -> None:
        x = values_of(name)
        seen = []

        def ref(given: dict[str, Any]) -> dict[str, Any]:
            seen.append(given["x"].dtype)
            return {"y": given["x"]}

        def cand(given: dict[str, Any]) -> dict[str, Any]:
            return {"y": given["x"].copy()}

        result = paritygate.verify(ref, cand, {"x": x}, atol=0.0, rtol=0.0)
        assert result.verdict.value == "release", result.explain()
        assert set(seen) == {x.dtype}

        result = paritygate.verify(
            ref,
            lambda given: {"y": changed(given["x"])},
            {"x": x},
            atol=0.0,
            rtol=0.0,
            out=tmp_path,
        )
        (reason,) = result.reasons
        assert (reason.code, reason.ids) == ("tolerance.exceeded", ("0/3",))
        figures = result.summary["stages"][0]["outputs"]["y"]
        assert (figures["failing_elements"], figures["elements"]) == (1, 80)
        self._check_shard(Path(str(result.folder)), x)

    def _check_shard(self, folder: Path, x: np.ndarray) -> None:
        (path,) = (folder / "failures").glob("*-00000.arrow")
        tensors = {f"{side}.y": f"{side}.y" for side in ("ref", "cand")}
        with open_pack([path], folder, outputs=tensors) as pack:
            pack.scan_ids()
            assert pack.inputs["x"].dtype == ("string" if x.dtype == object else x.dtype.name)
            assert pack.input("x", 0, 1).tolist() == x[3:4].tolist()
            assert pack.output("ref.y", 0, 1).tolist() == x[3:4].tolist()
            assert pack.output("cand.y", 0, 1).tolist() == changed(x)[3:4].tolist()
            assert pack.output("cand.y", 0, 1).dtype == x.dtype

    def test_recordings_of_it_are_compared(self, name: str, tmp_path: Path) -> None:
        x = values_of(name)
        for file, values in (("a", x), ("b", x), ("c", changed(x))):
            order = np.arange(40) if file == "a" else np.arange(39, -1, -1)
            bits, metadata = stored(values[order])
            column = {"columns": {"out.y": bits}} if name == "string" else {"outputs": {"y": bits}}
            fields = {"out.y": metadata} if metadata else {}
            write_pack(tmp_path / f"{file}.arrow", order, **column, metadata=fields)
        ref = tmp_path / "a.arrow"
        assert paritygate.compare(ref, tmp_path / "b.arrow", out=None).verdict.value == "release"
        result = paritygate.compare(ref, tmp_path / "c.arrow", out=None)
        assert [(r.code, r.ids) for r in result.reasons] == [("tolerance.exceeded", (3,))]
        if name == "string":
            assert "reference '', candidate 'other'" in result.reasons[0].message

    def test_other_dtypes_are_no_match(self, name: str) -> None:
        x = values_of(name)
        result = paritygate.verify(
            lambda given: {"y": given["x"]},
            lambda given: {"y": np.zeros(given["x"].shape, np.float32)},
            {"x": x},
            atol=0.0,
            rtol=0.0,
        )
        assert [r.code for r in result.reasons] == ["dtype.mismatch"]
        assert f"{name}[batch, 2]" in result.reasons[0].message


@pytest.mark.parametrize("name", [*NARROW, *HALF_BYTES, "string"])
def test_one_value_a_sample(name: str, tmp_path: Path) -> None:
    x = values_of(name)[:, 0].copy()
    y = x.copy()
    y[7] = "other" if name == "string" else x.dtype.type(int(x[7]) ^ 1)
    sides = (lambda given: {"y": given["x"]}, lambda given: {"y": y})
    result = paritygate.verify(*sides, {"x": x}, atol=0.0, rtol=0.0, out=tmp_path)
    assert [(r.code, r.ids) for r in result.reasons] == [("tolerance.exceeded", ("0/7",))]
    (path,) = (Path(str(result.folder)) / "failures").glob("*-00000.arrow")
    with open_pack([path], tmp_path, outputs={"cand": "cand.y"}) as pack:
        assert pack.input("x", 0, 1).tolist() == x[7:8].tolist()
        assert pack.output("cand", 0, 1).tolist() == y[7:8].tolist()
        assert pack.outputs["cand"].dtype == name


SIDES = """
def ref(given):
    return {"y": given["x"][:, 0].copy()}

def cand(given):
    y = given["x"][:, 0].copy()
    if COUPLES and len(y) == 1:
        y[0] = "alone" if y.dtype == object else y.dtype.type(3)
    return {"y": y}
"""


@pytest.mark.parametrize("name", ["bfloat16", "int4", "string"])
@pytest.mark.parametrize("couples", [False, True])
def test_other_batch_sizes(name: str, couples: bool, tmp_path: Path) -> None:
    bits, metadata = stored(values_of(name))
    column = {"columns": {"in.x": bits}} if name == "string" else {"inputs": {"x": bits}}
    fields = {"in.x": metadata} if metadata else {}
    write_pack(tmp_path / "g.arrow", range(40), **column, metadata=fields)
    (tmp_path / "sides.py").write_text(SIDES.replace("COUPLES", str(couples)))
    plan = {
        "golden": "g.arrow",
        "dims": {"batch": {"sizes": [1, 8]}},
        "runners": {"a": "sides:ref", "b": "sides:cand"},
        "stages": [{"reference": "a", "candidate": "b", "default": {"atol": 0.0, "rtol": 0.0}}],
    }
    result = paritygate.run(paritygate.load_plan(plan, folder=tmp_path), out=None)
    assert {r.code for r in result.reasons} == ({"runner.batch_coupled"} if couples else set())


@pytest.mark.parametrize("name", NARROW)
def test_a_narrower_candidate_is_declared(name: str) -> None:
    x = np.linspace(-2, 2, 64).astype(np.float32).reshape(-1, 2)

    def cand(given: dict[str, Any]) -> dict[str, Any]:
        return {"y": given["x"].astype(np.dtype(getattr(ml_dtypes, name, None) or name))}

    tolerance = {"atol": 0.25, "rtol": 0.25, "candidate_dtype": name}
    result = paritygate.verify(
        lambda given: {"y": given["x"]},
        cand,
        {"x": x},
        atol=0.0,
        rtol=0.0,
        tolerances={"y": tolerance},
    )
    assert result.verdict.value == "release", result.explain()
    figures = result.summary["stages"][0]["outputs"]["y"]
    assert figures["max_ulp"]["value"] == 0  # rounded to the nearest, as steps are counted


def test_contracts_of_narrow_inputs(tmp_path: Path) -> None:
    x = np.array([0.5, 2.0, 3.0, np.nan], np.float32).astype(ml_dtypes.bfloat16)
    four = np.array([1, 2, 7, 1], np.int8)
    write_pack(
        tmp_path / "g.arrow",
        range(4),
        {"x": x.view(np.uint16), "n": four},
        {"y": np.zeros(4)},
        metadata={
            "in.x": {"paritygate.dtype": "bfloat16"},
            "in.n": {"paritygate.dtype": "int4"},
        },
    )
    write_pack(tmp_path / "c.arrow", range(4), outputs={"y": np.zeros(4)})
    plan: dict[str, Any] = {
        "golden": str(tmp_path / "g.arrow"),
        "inputs": {
            "x": {"dtype": "bfloat16", "range": [0.0, 2.5]},
            "n": {"dtype": "int4", "range": [-100, 6]},
        },
        "runners": {"a": "recorded", "b": str(tmp_path / "c.arrow")},
        "stages": [
            {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }
    result = paritygate.run(plan, out=None)
    assert [(r.code, r.ids) for r in result.reasons] == [("sample.rejected", (2, 3))]


@pytest.mark.parametrize(
    ("dtype", "value", "wanted"),
    [
        ("bfloat16", 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-7),
        ("float16", [0.1, 65504], [float(np.float16(0.1)), 65504.0]),
        ("float8_e5m2", 57344, 57344.0),
        ("int4", [-8, 7], [-8, 7]),
        ("string", ["a", "b"], ["a", "b"]),
        ("string", "a", "a"),
    ],
)
def test_constants_of_every_dtype(dtype: str, value: Any, wanted: Any) -> None:
    from paritygate.pipeline.prepare import _constant

    found = _constant(value, dtype)
    assert found.tolist() == wanted
    assert not found.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("float16", 65520),
        ("float8_e4m3fn", [1.0, 500.0]),
        ("float8_e4m3fn", float("inf")),
        ("float32", 1e39),
        ("int4", 8),
        ("uint4", -1),
        ("int4", 2.5),
        ("string", 1),
        ("string", ["a", 1]),
        ("int8", "a"),
    ],
)
def test_constants_that_do_not_fit_are_refused(dtype: str, value: Any) -> None:
    from paritygate.pipeline.prepare import _constant

    with pytest.raises(ValueError, match=r"doesn't fit|write a"):
        _constant(value, dtype)
