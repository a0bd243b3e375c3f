"""Samples that are no acceptance evidence: made, marked, and marked still wherever they go."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from onnx import TensorProto, helper
from tests.models import FLOAT, linear_softmax, save_model
from tests.packs import write_pack

import paritygate
from paritygate.core.errors import GoldenError, PlanError

KEY = "paritygate.evidence"


@pytest.fixture
def made(tmp_path: Path) -> Path:
    linear_softmax(tmp_path / "m.onnx")
    paritygate.make_synthetic(tmp_path / "m.onnx", tmp_path / "s.arrow")
    return tmp_path / "s.arrow"


def plan(folder: Path, *golden: Path, **more: Any) -> dict[str, Any]:
    return {
        "golden": [str(path) for path in golden],
        "runners": {"a": str(folder / "m.onnx"), "b": str(folder / "m.onnx")},
        "stages": [
            {
                "reference": "a",
                "candidate": "b",
                "outputs": {"probabilities": {"atol": 1e-6, "rtol": 0.0}},
                "self": True,
            }
        ],
        **more,
    }


def codes(plan: dict[str, Any], **how: Any) -> list[str]:
    return [reason.code for reason in paritygate.run(plan, out=None, **how).reasons]


def real(folder: Path, rows: int = 4, name: str = "real.arrow") -> Path:
    x = np.random.default_rng(0).normal(size=(rows, 4)).astype(np.float32)
    return write_pack(folder / name, [f"r{n}" for n in range(rows)], {"x": x})


def test_what_is_made_says_so_in_three_places(made: Path) -> None:
    table = pa.ipc.open_file(made).read_all()
    assert table.schema.metadata[KEY.encode()] == b"synthetic"
    assert set(table[KEY].to_pylist()) == {"synthetic"}
    assert all(i.startswith("synthetic-") for i in table["sample_id"].to_pylist())


def test_it_cannot_release_alone(made: Path) -> None:
    result = paritygate.run(plan(made.parent, made), out=None)
    assert result.verdict == "hold"
    (reason,) = result.reasons
    assert reason.code == "evidence.synthetic"
    assert reason.message.startswith("all 5 samples that were compared are synthetic")
    assert result.summary["golden"]["synthetic"] == 5


def test_a_part_of_it_is_incomplete_at_best(made: Path) -> None:
    result = paritygate.run(plan(made.parent, made), out=None, limit=2)
    assert result.verdict in ("hold", "incomplete")


def test_beside_real_samples_it_counts_for_nothing(made: Path) -> None:
    four = real(made.parent)
    assert codes(plan(made.parent, four, made, min_samples=4)) == []
    result = paritygate.run(plan(made.parent, four, made, min_samples=5), out=None)
    (reason,) = result.reasons
    assert reason.code == "evidence.too_few"
    assert "4 samples were compared, besides 5 synthetic ones, which don't count" in reason.message


def through_build(source: Path) -> Path:
    out = source.with_name("built.arrow")
    paritygate.build_from(out, source)
    return out


def through_two_sources(source: Path) -> Path:
    out = source.with_name("both.arrow")
    paritygate.build_from(out, [source, source.with_name("more.arrow")])
    return out


def through_pandas(source: Path) -> Path:
    frame = pa.ipc.open_file(source).read_all().to_pandas()
    frame["in.x"] = list(frame["in.x"])
    out = source.with_name("pandas.parquet")
    pd.DataFrame(frame).to_parquet(out)
    return out


def through_csv(source: Path) -> Path:
    table = pa.ipc.open_file(source).read_all()
    x = np.stack(table["in.x"].combine_chunks().to_numpy_ndarray())
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["sample_id"], frame[KEY] = table["sample_id"].to_pylist(), table[KEY].to_pylist()
    frame.to_csv(source.with_name("t.csv"), index=False)
    out = source.with_name("csv.arrow")
    paritygate.build_from(out, source.with_name("t.csv"), inputs=["x:float32=a,b,c,d"])
    return out


def through_npz(source: Path) -> Path:
    paritygate.export_pack(source, source.with_name("e.npz"), rows=range(5))
    out = source.with_name("npz.arrow")
    paritygate.build_from(out, source.with_name("e.npz"), inputs=["x=in.x"])
    return out


def through_test_data(source: Path) -> Path:
    paritygate.export_pack(source, source.with_name("sets"), rows=range(5))
    out = source.with_name("sets.arrow")
    paritygate.import_pack(out, source.with_name("sets"))
    return out


def through_metadata_alone(source: Path) -> Path:
    table = pa.ipc.open_file(source).read_all().drop_columns([KEY])
    with pa.ipc.new_file(source.with_name("m.arrow"), table.schema) as writer:
        writer.write_table(table)
    return through_build(source.with_name("m.arrow"))


def through_boundary(source: Path) -> Path:
    out = source.with_name("boundary.arrow")
    paritygate.make_boundary(plan(source.parent, source), out)
    return out


WAYS: list[Callable[[Path], Path]] = [
    lambda source: Path(shutil.copy(source, source.with_name("copy.arrow"))),
    through_build,
    through_two_sources,
    through_pandas,
    through_csv,
    through_npz,
    through_test_data,
    through_metadata_alone,
    through_boundary,
]


@pytest.mark.parametrize("way", WAYS)
def test_the_mark_stays(made: Path, way: Callable[[Path], Path]) -> None:
    model = made.with_name("m.onnx")
    paritygate.make_synthetic(model, made.with_name("more.arrow"), seed=1)
    table = pa.ipc.open_file(made.with_name("more.arrow")).read_all()
    ids = pa.array([f"{i}-more" for i in table["sample_id"].to_pylist()])
    table = table.set_column(table.schema.get_field_index("sample_id"), "sample_id", ids)
    with pa.ipc.new_file(made.with_name("more.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert codes(plan(made.parent, way(made))) == ["evidence.synthetic"]


def test_a_pack_of_both_keeps_which_are_which(made: Path) -> None:
    out = made.with_name("mixed.arrow")
    paritygate.build_from(out, [made, real(made.parent)])
    assert codes(plan(made.parent, out, min_samples=4)) == []
    assert codes(plan(made.parent, out, min_samples=5)) == ["evidence.too_few"]
    report = paritygate.check_pack(out)
    assert ("note", "5 of 9 samples are synthetic: no acceptance evidence") in report.lines
    paritygate.export_pack(out, made.with_name("e.npz"), rows=[0, 5])
    with np.load(made.with_name("e.npz")) as arrays:
        assert arrays[KEY].tolist() == ["synthetic", ""]


def test_shards_and_recordings_keep_it(made: Path) -> None:
    both = plan(made.parent, made)
    linear_softmax(made.with_name("other.onnx"), seed=9)
    both["runners"]["b"] = str(made.with_name("other.onnx"))
    result = paritygate.run(both, out=made.parent / "runs")
    assert result.folder is not None
    (shard,) = (result.folder / "failures").glob("*-00000.arrow")
    assert codes(plan(made.parent, shard)) == ["evidence.synthetic"]
    one, two = made.with_name("one.arrow"), made.with_name("two.arrow")
    for path in (one, two):
        paritygate.record(plan(made.parent, made), "a", out=path)
    found = paritygate.compare(one, two, out=None, is_self=True)
    assert [reason.code for reason in found.reasons] == ["evidence.synthetic"]


def test_recordings_of_both_keep_which_are_which(made: Path) -> None:
    both = plan(made.parent, made, real(made.parent))
    for name in ("one", "two"):
        paritygate.record(both, "a", out=made.with_name(f"{name}.arrow"))
    one, two = made.with_name("one.arrow"), made.with_name("two.arrow")
    column = pa.ipc.open_file(one).read_all()[KEY].to_pylist()
    assert column == ["synthetic"] * 5 + [None] * 4
    found = paritygate.compare(one, two, out=None, is_self=True)
    assert found.reasons == ()
    recorded = {"a": str(one), "b": str(two)}
    assert codes({**both, "runners": recorded}) == []
    assert codes({**both, "runners": recorded, "min_samples": 5}) == ["evidence.too_few"]


def test_pack_check_tells_it(made: Path) -> None:
    report = paritygate.check_pack(made)
    assert report.exit_code == 1
    assert report.summary["synthetic"] == 5
    assert any(text.startswith("evidence.synthetic: ") for _, text in report.lines)


def marked(folder: Path, column: pa.Array[Any], name: str = "g.arrow") -> Path:
    x = np.zeros((4, 4), np.float32) + np.arange(4, dtype=np.float32)[:, None]
    return write_pack(folder / name, [f"r{n}" for n in range(4)], {"x": x}, columns={KEY: column})


def test_words_for_ordinary_samples(tmp_path: Path) -> None:
    linear_softmax(tmp_path / "m.onnx")
    words = ["measured", None, "", "measured"]
    for column in (pa.array(words), pa.array(words, pa.large_string()), pa.nulls(4)):
        assert codes(plan(tmp_path, marked(tmp_path, column))) == []
    paritygate.build_from(tmp_path / "b.arrow", marked(tmp_path, pa.array(words)))
    assert codes(plan(tmp_path, tmp_path / "b.arrow")) == []


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pa.array([None, "synthetic", "Synthetic", "yes"]), ", row 2, says 'Synthetic'; it is"),
        (pa.array([None, "synthetic ", "", ""]), ", row 1, says 'synthetic '; it is"),
        (pa.array(['"synthetic"'] * 4).dictionary_encode(), ", row 0, says '\"synthetic\"'; it"),
        (pa.array([True] * 4), " holds bool; it is 'synthetic' for what is no acceptance"),
        (pa.array([1, 0, 0, 0]), " holds int64; it is 'synthetic' for what is no acceptance"),
    ],
)
def test_other_words_are_refused(tmp_path: Path, column: pa.Array[Any], told: str) -> None:
    linear_softmax(tmp_path / "m.onnx")
    pack = marked(tmp_path, column)
    for read in (
        lambda: paritygate.run(plan(tmp_path, pack), out=None),
        lambda: paritygate.check_pack(pack),
    ):
        with pytest.raises(GoldenError) as caught:
            read()
        assert f"{pack}: column 'paritygate.evidence'{told}" in str(caught.value)
        assert (caught.value.code, caught.value.exit_code) == ("golden.value", 2)
    with pytest.raises(GoldenError, match=r"column 'paritygate\.evidence', row \d, says"):
        paritygate.build_from(tmp_path / "b.arrow", pack)


@pytest.mark.parametrize("said", ["Synthetic", '"synthetic"', "yes"])
def test_other_words_of_a_file_are_refused(made: Path, said: str) -> None:
    table = pa.ipc.open_file(made).read_all().drop_columns([KEY])
    pack = made.with_name("odd.parquet")
    pq.write_table(table.replace_schema_metadata({KEY: said}), pack)
    for read in (
        lambda: paritygate.run(plan(made.parent, pack), out=None),
        lambda: paritygate.build_from(made.with_name("b.arrow"), pack),
    ):
        with pytest.raises(GoldenError) as caught:
            read()
        told = f"{pack}: its metadata say paritygate.evidence = {said!r}; it is 'synthetic' for"
        assert told in str(caught.value)


@pytest.mark.parametrize("said", ["Synthetic", "", "yes", "synthetic, " * 9])
def test_other_words_beside_test_data_are_refused(made: Path, said: str) -> None:
    paritygate.export_pack(made, made.with_name("sets"), rows=range(2))
    marks = sorted(made.with_name("sets").rglob("synthetic.txt"))
    assert len(marks) == 2
    marks[1].write_text(said)
    with pytest.raises(GoldenError) as caught:
        paritygate.import_pack(made.with_name("i.arrow"), made.with_name("sets"))
    assert str(caught.value).startswith(f"{marks[1]}: says '{said.strip()[:64].strip()}")
    assert str(caught.value).endswith("; it says 'synthetic', or isn't there")


def recorded(folder: Path, golden: dict[str, Any], *names: str) -> list[Path]:
    paths = [folder / f"{name}.arrow" for name in names]
    for path in paths:
        paritygate.record(golden, "a", out=path)
    return paths


def test_recordings_keep_it_without_their_metadata(made: Path) -> None:
    paths = recorded(made.parent, plan(made.parent, made), "one", "two")
    copies = [path.with_suffix(".parquet") for path in paths]
    for path, copy in zip(paths, copies, strict=True):
        assert pa.ipc.open_file(path).schema.metadata[KEY.encode()] == b"synthetic"
        pq.write_table(pa.ipc.open_file(path).read_all().replace_schema_metadata(None), copy)
    found = paritygate.compare(*copies, out=None, is_self=True)
    assert [reason.code for reason in found.reasons] == ["evidence.synthetic"]


def test_either_side_says_it(made: Path) -> None:
    one, two = recorded(made.parent, plan(made.parent, made), "one", "two")
    bare = two.with_name("bare.parquet")
    table = pa.ipc.open_file(two).read_all().replace_schema_metadata(None).drop_columns([KEY])
    pq.write_table(table.take(pa.array([4, 2, 0, 1, 3])), bare)
    for ref, cand in ((one, bare), (bare, one)):
        found = paritygate.compare(ref, cand, out=None, is_self=True)
        assert [reason.code for reason in found.reasons] == ["evidence.synthetic"]
    stripped = made.with_name("stripped.parquet")
    table = pa.ipc.open_file(made).read_all().replace_schema_metadata(None).drop_columns([KEY])
    pq.write_table(table, stripped)
    pq.write_table(
        pa.ipc.open_file(one).read_all().replace_schema_metadata(None), one.with_suffix(".parquet")
    )
    candidate = {"a": str(made.with_name("m.onnx")), "b": str(one.with_suffix(".parquet"))}
    assert codes({**plan(made.parent, stripped), "runners": candidate}) == ["evidence.synthetic"]


def test_the_samples_of_one_side_are_found_by_id(made: Path) -> None:
    both = plan(made.parent, made, real(made.parent))
    (one,) = recorded(made.parent, both, "one")
    table = pa.ipc.open_file(one).read_all().replace_schema_metadata(None)
    marks, bare = one.with_name("marks.parquet"), one.with_name("bare.parquet")
    pq.write_table(table.take(pa.array([8, 0, 7, 1, 6, 2, 5, 3, 4])), marks)
    pq.write_table(table.drop_columns([KEY]), bare)
    found = paritygate.compare(bare, marks, out=None, is_self=True)
    assert found.reasons == ()
    assert found.summary["golden"]["synthetic"] == 5
    golden = {**both, "golden": str(bare), "runners": {"a": "recorded", "b": str(marks)}}
    assert codes({**golden, "min_samples": 4}) == []
    assert codes({**golden, "min_samples": 5}) == ["evidence.too_few"]


def test_a_release_says_how_many_count_for_nothing(made: Path) -> None:
    result = paritygate.run(plan(made.parent, made, real(made.parent)), out=None)
    assert result.verdict == "release"
    (told,) = (note for note in result.summary["not_judged"] if "synthetic" in note)
    assert told == (
        "inputs: 5 of the samples that were run are synthetic (paritygate.evidence): compared like "
        "the others, but no acceptance evidence"
    )
    alone = paritygate.run(plan(made.parent, real(made.parent)), out=None)
    assert not any("synthetic" in note for note in alone.summary["not_judged"])


@pytest.mark.parametrize("name", ["b.arrow", "b.parquet"])
def test_boundaries_of_both_keep_which_golden_samples_are_which(made: Path, name: str) -> None:
    both = plan(made.parent, made, real(made.parent))
    paritygate.make_boundary(both, made.with_name("b.arrow"), with_golden=True)
    table = pa.ipc.open_file(made.with_name("b.arrow")).read_all()
    assert KEY.encode() not in table.schema.metadata
    marks = dict(zip(table["sample_id"].to_pylist(), table[KEY].to_pylist(), strict=True))
    assert {i for i, mark in marks.items() if mark is None} == {"r0", "r1", "r2", "r3"}
    assert set(marks.values()) == {"synthetic", None}
    if name == "b.parquet":
        pq.write_table(table.replace_schema_metadata(None), made.with_name(name))
    golden = made.with_name(name)
    assert codes(plan(made.parent, golden, min_samples=4)) == []
    assert codes(plan(made.parent, golden, min_samples=5)) == ["evidence.too_few"]


def test_a_dictionary_and_parquet_are_read_too(made: Path) -> None:
    table = pa.ipc.open_file(made).read_all().replace_schema_metadata(None)
    at = table.schema.get_field_index(KEY)
    table = table.set_column(at, KEY, table[KEY].dictionary_encode())
    pq.write_table(table, made.with_name("d.parquet"))
    assert codes(plan(made.parent, made.with_name("d.parquet"))) == ["evidence.synthetic"]


def test_inputs_follow_the_graph(tmp_path: Path) -> None:
    save_model(
        tmp_path / "m.onnx",
        [
            helper.make_node("Cast", ["ids"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["f", "x"], ["y"]),
        ],
        {
            "ids": (TensorProto.INT64, ["n", "seq"]),
            "x": (FLOAT, ["n", "seq"]),
            "flag": (TensorProto.BOOL, ["n", 2]),
            "text": (TensorProto.STRING, ["n"]),
            "rate": (FLOAT, []),
        },
        {"y": (FLOAT, ["n", "seq"])},
    )
    out = tmp_path / "s.arrow"
    found = paritygate.make_synthetic(tmp_path / "m.onnx", out, dims={"seq": (1, 7)})
    assert found.notes == ("input rate has no axis for samples: give it by [constants]",)
    rows = {row["sample_id"]: row for row in pa.ipc.open_file(out).read_all().to_pylist()}
    assert len(rows) == 15
    assert rows["synthetic-ones-seq=7"]["in.ids"]["data"] == [1] * 7
    assert rows["synthetic-zeros-seq=4"]["in.flag"] == [False, False]
    assert rows["synthetic-ones-seq=1"]["in.text"] == "1"
    for scale in (0.01, 1, 100):
        largest = max(map(abs, rows[f"synthetic-scaled-{scale:g}-seq=7"]["in.x"]["data"]))
        assert scale / 20 < largest <= scale
    again = paritygate.make_synthetic(
        tmp_path / "m.onnx", tmp_path / "t.arrow", dims={"seq": (1, 7)}
    )
    assert again.built.digest == found.built.digest


def test_dims_without_bounds_and_bounds_without_dims(tmp_path: Path) -> None:
    save_model(
        tmp_path / "m.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (FLOAT, ["n", "seq", None])},
        {"y": (FLOAT, ["n", "seq", None])},
    )
    with pytest.raises(PlanError) as caught:
        paritygate.make_synthetic(
            tmp_path / "m.onnx", tmp_path / "s.arrow", dims={"seqs": (1, 2), "x_2": (3, 1)}
        )
    assert [str(p) for p in caught.value.problems] == [
        "dim: 'seq' is open in the graph; give its bounds: --dim seq=1..512",
        "dim: no open dim is named 'seqs'; did you mean 'seq'?",
        "dim: x_2 is 3 to 1; give whole numbers with 0 <= smallest <= largest",
    ]
    assert not (tmp_path / "s.arrow").exists()


def test_what_no_pack_holds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"nothing")
    with pytest.raises(GoldenError, match=r"no\.onnx: is no ONNX model"):
        paritygate.make_synthetic(tmp_path / "no.onnx", tmp_path / "s.arrow")
    save_model(
        tmp_path / "big.onnx",
        [helper.make_node("Identity", ["x"], ["y"])],
        {"x": (FLOAT, ["n", 2**40])},
        {"y": (FLOAT, ["n", 2**40])},
    )
    with pytest.raises(GoldenError, match="more than 64"):
        paritygate.make_synthetic(tmp_path / "big.onnx", tmp_path / "s.arrow")
