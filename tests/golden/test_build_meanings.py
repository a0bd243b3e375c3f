"""Sources that say otherwise what their numbers are make no pack together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paritygate
from paritygate.core.errors import GoldenError


def source(path: Path, first: int, metadata: dict[str, str]) -> Path:
    x = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ones((2, 2), np.uint16))
    fields = [pa.field("sample_id", pa.int64()), pa.field("in.x", x.type, metadata=metadata)]
    table = pa.table([pa.array([first, first + 1]), x], schema=pa.schema(fields))
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    return path


def said(**keys: Any) -> dict[str, str]:
    return {f"paritygate.{key}": json.dumps(value) for key, value in keys.items()}


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
@pytest.mark.parametrize(
    ("one", "two", "told"),
    [
        (
            said(channels=["p", "q"]),
            said(channels=["q", "p"]),
            'says paritygate.channels = ["q", "p"] from row 0 on, but says paritygate.channels = [',
        ),
        (
            said(units=["m", "K"]),
            said(units=["m", "degC"]),
            'says paritygate.units = ["m", "degC"] from row 0 on',
        ),
        (said(axes=["channel"]), said(axes=["time"]), "says paritygate.axes"),
        (said(channels=["p", "q"]), {}, "says no paritygate.channels from row 0 on, but says"),
        ({}, said(units="m"), 'says paritygate.units = "m" from row 0 on, but says no'),
        ({"paritygate.dtype": "bfloat16"}, {}, "says no paritygate.dtype from row 0 on"),
    ],
)
def test_sources_that_differ(
    tmp_path: Path, suffix: str, one: dict[str, str], two: dict[str, str], told: str
) -> None:
    sources = [
        source(tmp_path / f"{n}{suffix}", 2 * n, metadata) for n, metadata in enumerate((one, two))
    ]
    with pytest.raises(GoldenError) as caught:
        paritygate.build_from(tmp_path / "b.arrow", sources)
    assert str(caught.value).startswith(f"{sources[1]}: in.x ")
    assert told in str(caught.value)
    assert (caught.value.code, caught.value.exit_code) == ("golden.schema", 2)
    assert not list(tmp_path.glob("b.arrow*"))


def test_sources_that_say_the_same_in_other_letters(tmp_path: Path) -> None:
    one = source(tmp_path / "0.arrow", 0, {"paritygate.channels": '["p","q"]'})
    two = source(tmp_path / "1.arrow", 2, {"paritygate.channels": '[ "p", "q" ]'})
    built = paritygate.build_from(tmp_path / "b.arrow", [one, two])
    assert built.samples == 4
    field = pa.ipc.open_file(built.path).schema.field("in.x")
    assert json.loads(field.metadata[b"paritygate.channels"]) == ["p", "q"]


def test_what_is_said_of_all_of_them_holds_for_all(tmp_path: Path) -> None:
    one = source(tmp_path / "0.arrow", 0, said(channels=["p", "q"]))
    two = source(tmp_path / "1.arrow", 2, {})
    built = paritygate.build_from(tmp_path / "b.arrow", [one, two], channels={"x": ["p", "q"]})
    field = pa.ipc.open_file(built.path).schema.field("in.x")
    assert json.loads(field.metadata[b"paritygate.channels"]) == ["p", "q"]
