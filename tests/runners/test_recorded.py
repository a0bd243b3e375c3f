"""Recorded outputs are joined by id, whatever their order, and what doesn't join is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import write_pack
from tests.runners.contract import context_of, make_batch, spec_of

from paritygate.core.errors import RunnerLoadError
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.runners.recorded import RecordedRunner
from paritygate.runners.registry import prepare


def golden_of(folder: Path, ids: Sequence[object]) -> GoldenPack:
    n = len(ids)
    write_pack(folder / "golden.arrow", ids, {"x": np.zeros((n, 2), np.float32)})
    return open_pack(["golden.arrow"], folder)


def load(
    folder: Path, golden: GoldenPack, table: Mapping[str, object] | None = None
) -> RecordedRunner:
    spec = spec_of({"path": "rec.arrow", **(table or {})})
    runner = prepare(spec, context_of(folder, golden))
    assert isinstance(runner, RecordedRunner)
    return runner


def run(
    runner: RecordedRunner, golden: GoldenPack, start: int = 0, stop: int | None = None
) -> tuple[dict[str, np.ndarray], np.ndarray | None]:
    stop = golden.samples if stop is None else stop
    batch = make_batch(golden.input("x", start, stop), start, stop - start, golden.ids(start, stop))
    lease = runner.session().run(batch)
    return dict(lease.outputs), lease.present


_IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), unique=True, min_size=1, max_size=30),
    st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=30),
)


@given(_IDS, st.data())
@settings(deadline=None, max_examples=60)
def test_join_is_that_of_a_dict(
    tmp_path_factory: pytest.TempPathFactory, ids: list[object], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("join")
    chosen = data.draw(st.permutations(ids))[: data.draw(st.integers(1, len(ids)))]
    kept = [i for i in ids if data.draw(st.booleans())] or ids[:1]
    values = {id_: float(k) + 1 for k, id_ in enumerate(chosen)}
    write_pack(
        folder / "rec.arrow",
        chosen,
        outputs={"y": np.array([values[i] for i in chosen])},
        rows_per_batch=data.draw(st.integers(1, 9)),
    )
    with golden_of(folder, kept) as golden, load(folder, golden) as runner:
        outputs, present = run(runner, golden)
        found = [i in values for i in kept]
        assert (present is None) == all(found)
        if present is not None:
            assert present.tolist() == found
        assert outputs["y"].tolist() == [values.get(i, 0.0) for i in kept]
        strange = [i for i in chosen if i not in set(kept)]
        assert runner.extra().count == len(strange)
        assert list(runner.extra().first) == strange[:10]


def test_consecutive_rows_are_not_copied(tmp_path: Path) -> None:
    y = np.arange(80, dtype=np.float32).reshape(40, 2)
    write_pack(tmp_path / "rec.arrow", np.arange(100, 140), outputs={"y": y})
    with golden_of(tmp_path, list(range(110, 130))) as golden, load(tmp_path, golden) as runner:
        outputs, present = run(runner, golden, 5, 15)
        assert present is None
        assert (outputs["y"] == y[15:25]).all()
        one, other = (run(runner, golden, 5, 15)[0]["y"].ctypes.data for _ in range(2))
        assert one == other
        assert run(runner, golden, 6, 15)[0]["y"].ctypes.data == one + 8


def test_mapped_rows_are_let_go_on_release_and_can_be_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[tuple[int, int]] = []
    drop = GoldenPack.done_with

    def done_with(self: GoldenPack, start: int, stop: int) -> None:
        dropped.append((start, stop))
        drop(self, start, stop)

    monkeypatch.setattr(GoldenPack, "done_with", done_with)
    y = np.arange(80_000, dtype=np.float32).reshape(40_000, 2)
    write_pack(tmp_path / "rec.arrow", np.arange(40_000), outputs={"y": y})
    ids = list(range(100, 20_100))
    with golden_of(tmp_path, ids) as golden, load(tmp_path, golden) as runner:
        batch = make_batch(golden.input("x", 0, 20_000), 0, 20_000, golden.ids(0, 20_000))
        lease = runner.session().run(batch)
        assert not dropped
        lease.release()
        lease.release()
        assert dropped == [(100, 20_100)]
        assert (lease.outputs["y"] == y[100:20_100]).all()
        assert (run(runner, golden)[0]["y"] == y[100:20_100]).all()


def test_golden_recording_skips_rejected_samples(tmp_path: Path) -> None:
    y = np.arange(20, dtype=np.float32)
    ids = np.random.default_rng(3).permutation(20)
    write_pack(tmp_path / "golden.arrow", ids, {"x": np.zeros((20, 2), np.float32)}, {"y": y})
    with (
        open_pack(["golden.arrow"], tmp_path) as golden,
        prepare(spec_of("recorded"), context_of(tmp_path, golden)) as runner,
    ):
        for rows in ([2, 3, 4], [2, 4, 5], [17, 18, 19], [18, 19], [0], [5, 9]):
            batch = make_batch(golden.input("x", 0, len(rows)), rows[0], len(rows), ids[rows])
            lease = runner.session().run(batch)
            assert lease.outputs["y"].tolist() == y[rows].tolist()
            assert lease.present is None
        assert isinstance(runner, RecordedRunner)
        assert runner.extra().count == 0


def test_duplicates_are_a_finding(tmp_path: Path) -> None:
    ids = [5, 3, 5, 1, 3, 5]
    write_pack(tmp_path / "rec.arrow", ids, outputs={"y": np.arange(6.0)})
    with golden_of(tmp_path, [1, 3, 5]) as golden, load(tmp_path, golden) as runner:
        assert runner.duplicates.count == 3
        assert set(runner.duplicates.first) == {3, 5}
        finding = runner.findings[0]
        assert (finding.code, finding.count) == ("sample.duplicate", 3)
        assert run(runner, golden)[0]["y"].tolist() == [3.0, 1.0, 0.0]


def test_null_id_does_not_load(tmp_path: Path) -> None:
    write_pack(tmp_path / "rec.arrow", [1, None, 3], outputs={"y": np.arange(3.0)})
    with golden_of(tmp_path, [1, 3]) as golden, pytest.raises(RunnerLoadError) as caught:
        load(tmp_path, golden)
    assert not caught.value.is_plan_fault
    assert caught.value.code == "golden.null_id"
    assert "runner 'runner'" in str(caught.value)


def test_ids_of_another_type_cannot_be_joined(tmp_path: Path) -> None:
    write_pack(tmp_path / "rec.arrow", ["1", "3"], outputs={"y": np.arange(2.0)})
    with golden_of(tmp_path, [1, 3]) as golden, pytest.raises(RunnerLoadError) as caught:
        load(tmp_path, golden)
    assert caught.value.is_plan_fault
    assert "ids of the recording are string, those of the golden pack are int64" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"outputs": {"z": "yyy"}}, "no output 'yyy'; known: y, q"),
        ({"outputs": {"q": "y"}}, "another output of this name"),
        ({"path": "absent.arrow"}, "absent.arrow"),
        ({"path": "*.nothing.arrow"}, "nothing.arrow"),
        ({"id": "uid"}, "uid"),
    ],
)
def test_faults_of_the_plan(tmp_path: Path, table: dict[str, object], message: str) -> None:
    outputs = {"y": np.arange(2.0), "q": np.arange(2.0)}
    write_pack(tmp_path / "rec.arrow", [1, 3], outputs=outputs)
    with golden_of(tmp_path, [1, 3]) as golden, pytest.raises(RunnerLoadError) as caught:
        load(tmp_path, golden, table)
    assert caught.value.is_plan_fault
    assert message in str(caught.value)


def test_recording_without_outputs(tmp_path: Path) -> None:
    write_pack(tmp_path / "rec.arrow", [1, 3], columns={})
    with golden_of(tmp_path, [1, 3]) as golden, pytest.raises(RunnerLoadError, match=r"out\.NAME"):
        load(tmp_path, golden)


def test_plain_columns_are_outputs_on_request(tmp_path: Path) -> None:
    import pyarrow as pa

    write_pack(tmp_path / "rec.arrow", [1, 3], columns={"score": pa.array([0.5, 0.25])})
    with (
        golden_of(tmp_path, [3, 1]) as golden,
        load(tmp_path, golden, {"outputs_from": "all"}) as runner,
    ):
        assert run(runner, golden)[0]["score"].tolist() == [0.25, 0.5]


def test_identity_is_that_of_the_content(tmp_path: Path) -> None:
    for name, factor in (("rec", 1), ("same", 1), ("other", 2)):
        write_pack(tmp_path / f"{name}.arrow", [1, 3], outputs={"y": factor * np.arange(2.0)})
    with golden_of(tmp_path, [1, 3]) as golden:
        one, same, other = (
            load(tmp_path, golden, {"path": f"{n}.arrow"}) for n in ("rec", "same", "other")
        )
        assert one.identity == same.identity
        assert one.identity != other.identity
        assert one.facts["samples"] == 2
        assert one.facts["digest"] == same.facts["digest"]
