"""Blocks of recordings follow the record batches of their files; nothing that is counted does."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.packs import write_pack

from paritygate.api.plans import load_plan
from paritygate.core.tensors import BlockSizes, TensorSpec
from paritygate.pipeline import block_sizes
from paritygate.pipeline.block_sizes import cut_along, enlarged, most_samples
from paritygate.pipeline.lane import run_span
from paritygate.pipeline.prepare import Preparation, prepare_plan
from paritygate.runners.base import Limits

SAMPLES = 500


@given(
    st.integers(0, 400),
    st.integers(1, 40),
    st.integers(1, 6),
    st.lists(st.integers(1, 399), unique=True).map(sorted),
)
def test_blocks_cover_every_sample_once(
    samples: int, least: int, factor: int, inner: list[int]
) -> None:
    sizes = BlockSizes(least, least * factor)
    bounds = [0, *(b for b in inner if b < samples)]
    joined = max(1, sizes.most // 3)
    blocks = cut_along(samples, sizes, joined, bounds)
    assert [b.start for b in blocks] == [0, *(b.stop for b in blocks)][: len(blocks)]
    assert sum(b.samples for b in blocks) == samples
    assert [b.number for b in blocks] == list(range(len(blocks)))
    assert all(b.place == b.start and 0 < b.samples <= sizes.most for b in blocks)
    for block in blocks:
        ends = {bound for bound in bounds if block.start < bound < block.stop}
        assert block.samples <= joined or not ends
    # Of two neighbours one is large, or ends where a record batch does that is large itself.
    pairs = pairwise(b.samples for b in blocks)
    assert all(2 * sum(pair) >= min(joined, least) for pair in list(pairs)[:-1])


def cuts(samples: int, size: int, joined: int, rows: int) -> list[int]:
    blocks = cut_along(samples, BlockSizes(size, size), joined, list(range(0, samples, rows)))
    return [block.samples for block in blocks]


def test_a_block_is_a_record_batch_or_an_equal_part_of_one_or_many_small_ones() -> None:
    assert cuts(4000, 1000, 500, 1000) == [1000] * 4
    assert cuts(8000, 1000, 500, 2700) == [900] * 6 + [867, 867, 866]
    assert cuts(4000, 1000, 500, 300) == [300] * 13 + [100]
    assert cuts(4000, 1000, 500, 120) == [480] * 8 + [160]
    assert cuts(4000, 1000, 500, 501) == [501] * 7 + [493]


def test_blocks_get_small_towards_the_end_so_that_every_thread_has_work() -> None:
    blocks = cut_along(80_000, BlockSizes(1000, 10_000), 4000, list(range(0, 80_000, 20_000)))
    assert blocks[0].samples == 10_000
    assert max(block.samples for block in blocks[-4:]) <= 1000


@pytest.mark.parametrize(
    ("sizes", "most"),
    [([1], 8_192), ([512], 8_192), ([4096], 65_536), ([4096, 1], 8_192), ([4096, None], 8_192)],
)
def test_blocks_have_more_samples_where_every_batch_is_large(
    sizes: list[int | None], most: int
) -> None:
    runners: Any = {
        str(at): SimpleNamespace(limits=Limits(None if size is None else (size,), True))
        for at, size in enumerate(sizes)
    }
    assert most_samples(runners) == most


@pytest.mark.parametrize(
    ("outputs", "most"),
    [
        ([("float32", ("batch", 10))], 32_768),
        ([("float32", ("batch", 10)), ("float16", ("batch", 5000))], 8_192),
        ([("float32", ("batch", "classes"))], 8_192),
        ([("string", ("batch", 1))], 8_192),
        ([], 8_192),
    ],
)
def test_blocks_are_larger_where_answers_are_known_to_be_small(
    outputs: list[tuple[str, tuple[int | str, ...]]], most: int
) -> None:
    given: Any = SimpleNamespace(
        outputs={str(at): TensorSpec(str(at), *spec) for at, spec in enumerate(outputs)} or None
    )
    small: Any = SimpleNamespace(outputs={"y": TensorSpec("y", "float32", ("batch", 1))})
    blocks = BlockSizes.of(300, [256])
    found = enlarged(blocks, 300, [256], [small, given])
    assert (blocks.most, found.most) == (8_192, most)


def prepared(folder: Path, name: str, order: np.ndarray, rows: int) -> Preparation:
    rng = np.random.default_rng(5)
    y = rng.standard_normal((SAMPLES, 3)).astype(np.float32)
    near = y + rng.normal(scale=1e-4, size=y.shape).astype(np.float32)
    near[7, 1] = np.nan
    ids = np.arange(SAMPLES) * 7 % 1013
    write_pack(folder / "ref.arrow", ids, outputs={"y": y}, rows_per_batch=64)
    write_pack(folder / name, ids[order], outputs={"y": near[order]}, rows_per_batch=rows)
    plan: dict[str, Any] = {
        "golden": "ref.arrow",
        "runners": {"a": "recorded", "b": name},
        "stages": [
            {
                "name": "s",
                "reference": "a",
                "candidate": "b",
                "outputs": {"y": {"atol": 2e-4, "rtol": 0.0}},
            }
        ],
    }
    return prepare_plan(load_plan(plan, folder=folder))


@pytest.mark.parametrize("rows", [64, 37, 500])
@pytest.mark.parametrize("is_shuffled", [False, True])
def test_order_and_record_batches_change_no_statistics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, is_shuffled: bool
) -> None:
    same = np.arange(SAMPLES)
    expected = prepared(tmp_path, "same.arrow", same, 64)
    order = np.random.default_rng(6).permutation(SAMPLES) if is_shuffled else same
    monkeypatch.setattr(block_sizes, "MAX_BLOCK", 128)
    for name in ("MAX_BATCHED_BLOCK", "_MOST_NUMBERS"):
        monkeypatch.setattr(block_sizes, name, 128)
    found = prepared(tmp_path, "cand.arrow", order, rows)
    with expected.resources, found.resources:
        assert len(expected.blocks) < len(found.blocks)
        tallies = [run_span(ready.prepared, ready.blocks) for ready in (expected, found)]
        runner = found.prepared.runners["b"]
        assert runner.final_findings() == ()
    assert tallies[0].stages["s"].failed > 0
    assert tallies[0].to_json()["stages"] == tallies[1].to_json()["stages"]


@pytest.mark.parametrize(("inputs", "is_read"), [({}, False), ({"x": {"range": [-9, 9]}}, True)])
def test_inputs_that_nobody_reads_make_no_block_smaller(
    tmp_path: Path, inputs: dict[str, Any], is_read: bool
) -> None:
    samples = 400
    x, y = np.zeros((samples, 30_000), np.float32), np.ones((samples, 2), np.float32)
    write_pack(tmp_path / "a.arrow", range(samples), {"x": x}, {"y": y}, rows_per_batch=50)
    write_pack(tmp_path / "b.arrow", range(samples), outputs={"y": y + np.float32(1)})
    plan: dict[str, Any] = {
        "golden": "a.arrow",
        "inputs": inputs,
        "runners": {"a": "recorded", "b": "b.arrow"},
        "stages": [
            {"reference": "a", "candidate": "b", "outputs": {"y": {"atol": 2.0, "rtol": 0}}}
        ],
    }
    with (ready := prepare_plan(load_plan(plan, folder=tmp_path))).resources:
        assert ready.prepared.reads_runs is not is_read
        assert (len(ready.blocks) > 8) is is_read
