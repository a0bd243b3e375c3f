"""Views that show the same bytes again and again are refused before they are laid out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import paritygate
from paritygate.core.errors import GoldenError
from paritygate.golden.bounds import SpreadError
from paritygate.golden.plain import plain
from paritygate.golden.spread import _costs

ROWS, LENGTH = 20_000, 50_000


def views(child: Any, rows: int = ROWS, length: int = LENGTH) -> Any:
    """`rows` list views, each of the first `length` elements of `child`."""
    starts, sizes = np.zeros(rows, np.int32), np.full(rows, length, np.int32)
    buffers = [None, pa.py_buffer(starts), pa.py_buffer(sizes)]
    return pa.Array.from_buffers(pa.list_view(child.type), rows, buffers, children=[child])


def texts(rows: int = ROWS, length: int = LENGTH) -> Any:
    """`rows` string views of one text."""
    one = pa.array(["a" * length], pa.string_view()).buffers()
    view = np.tile(np.frombuffer(one[1], np.uint8)[:16], rows)
    return pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(view), *one[2:]])


def dictionary(values: Any) -> Any:
    """Every row is the last value."""
    last = np.full(ROWS, len(values) - 1, np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(last), values)


FLOATS = pa.array(np.zeros(LENGTH, np.float32))
BOMBS = {
    "list views": lambda: views(FLOATS),
    "string views": texts,
    "list views of string views": lambda: views(texts(100), 1_000, 100),
    "list views of list views": lambda: views(views(FLOATS, 100), 100, 100),
    "list views of lists": lambda: views(
        pa.array([[0.0] * LENGTH], pa.list_(pa.float32())), ROWS, 1
    ),
    "list views of texts": lambda: views(pa.array(["a" * LENGTH]), ROWS, 1),
    "lists of list views": lambda: pa.ListArray.from_arrays(
        pa.array([0, ROWS], pa.int32()), views(FLOATS)
    ),
    "fixed lists of list views": lambda: pa.FixedSizeListArray.from_arrays(views(FLOATS), 2),
    "views of bytes": lambda: texts().cast(pa.binary_view()),
    "a dictionary of one long text": lambda: dictionary(pa.array(["", "a" * LENGTH])),
    "a dictionary of long bytes": lambda: dictionary(pa.array([b"", b"a" * LENGTH])),
    "list views of one long text among many": lambda: pa.ListViewArray.from_arrays(
        pa.array(np.full(ROWS, 999, np.int32)),
        pa.array(np.ones(ROWS, np.int32)),
        pa.array([*[""] * 999, "a" * LENGTH]),
    ),
    "a dictionary of string views": lambda: pa.DictionaryArray.from_arrays(
        pa.array(np.arange(ROWS, dtype=np.int32)), texts()
    ),
}


@pytest.mark.parametrize("name", list(BOMBS))
def test_what_spreads_is_refused(name: str) -> None:
    bomb = BOMBS[name]()
    before = pa.total_allocated_bytes()
    with pytest.raises(SpreadError, match="end to end; write it as plain lists"):
        plain(bomb)
    assert pa.total_allocated_bytes() - before < 1 << 26


@pytest.mark.parametrize("kind", ["input", "label", "dictionary", "raw.x"])
def test_a_pack_of_such_views_is_refused_by_name(tmp_path: Path, kind: str) -> None:
    columns = {"sample_id": pa.array(np.arange(ROWS))}
    columns["in.x"] = views(FLOATS) if kind == "input" else pa.array(np.ones(ROWS, np.float32))
    if kind == "label":
        columns["label"] = texts()
    elif kind == "dictionary":
        columns["label"] = dictionary(pa.array(["a" * LENGTH], pa.large_string()))
    elif kind == "raw.x":
        columns[kind] = texts().cast(pa.binary_view())
    table = pa.table(columns)
    with (
        pa.OSFile(str(tmp_path / "p.arrow"), "wb") as file,
        pa.ipc.new_file(file, table.schema) as w,
    ):
        w.write_table(table)
    with pytest.raises(GoldenError, match=r"p\.arrow: a column of .* end to end") as error:
        paritygate.check_pack(tmp_path / "p.arrow")
    assert error.value.code == "golden.unreadable"


LISTS = st.lists(st.none() | st.lists(st.integers(0, 9), max_size=5), max_size=12)
NESTED = st.lists(st.none() | st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=4))
TEXTS = st.lists(st.none() | st.text(max_size=30), max_size=12)


@given(st.data())
def test_what_it_comes_to_is_near_what_it_takes(data: st.DataObject) -> None:
    kind, rows = data.draw(
        st.sampled_from(
            [
                (pa.list_view(pa.int32()), LISTS),
                (pa.large_list_view(pa.int32()), LISTS),
                (pa.list_(pa.list_view(pa.int32())), NESTED),
                (pa.list_view(pa.list_(pa.int32())), NESTED),
                (pa.string_view(), TEXTS),
                (pa.list_view(pa.string()), st.lists(st.none() | TEXTS, max_size=5)),
            ]
        )
    )
    array = pa.array(data.draw(rows), kind)
    low = data.draw(st.integers(0, len(array)))
    part = array.slice(low, data.draw(st.integers(0, len(array) - low)))
    costs = _costs(part)
    needs = float(np.sum(costs)) if isinstance(costs, np.ndarray) else costs * len(part)
    # Bitmaps and the last offset are no more than this.
    assert abs(needs - plain(part).nbytes) <= 17 * (len(part) + 4) + 8 * needs / 16


@given(TEXTS, st.data())
def test_rows_of_a_dictionary_count_as_their_texts(values: list[str | None], data: Any) -> None:
    kind = data.draw(st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
    words = pa.array(["before", *values, "after"], kind).slice(1, len(values))
    at = st.none() | st.integers(0, max(0, len(values) - 1))
    rows = data.draw(st.lists(at if values else st.none(), max_size=20))
    array = pa.DictionaryArray.from_arrays(pa.array(rows, pa.int32()), words)
    costs = np.broadcast_to(np.asarray(_costs(array)), len(rows))
    for row, cost in zip(rows, costs, strict=True):
        text = None if row is None else values[row]
        assert cost <= 4 if text is None else cost == 4 + len(text.encode())
