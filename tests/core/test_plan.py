"""The plan: all problems at once, both forms, overrides, canonical form."""

from __future__ import annotations

import math
import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from paritygate.api.plans import load_plan, plan_from_models, toml_text
from paritygate.core.errors import PlanError
from paritygate.core.overrides import apply_overrides
from paritygate.core.tables import BatchDim
from paritygate.core.tensors import BlockSizes, cut_blocks

SHORT = """
golden = "golden/*.arrow"
[runners]
float = "model.onnx"
int8  = "model.int8.onnx"
[[stages]]
reference = "float"
candidate = "int8"
outputs.score = { atol = 1e-3, rtol = 1e-3 }
[decisions.disposition]
output = "score"
bands  = "accept < 0.2 <= review <= 0.8 < reject"
"""

LONG = """
name   = "bearing-advisory"
golden = ["golden/*.arrow"]
slices = ["site"]
min_samples = 1000
[dims]
batch = { sizes = [1, 256] }
[inputs.features]
dtype = "float32"
shape = ["batch", 2]
axes  = ["sample", "channel"]
channels = ["vibration_rms", "bearing_temperature"]
units = ["mm/s", "degC"]
range = [[0.0, 50.0], [-40.0, 200.0]]
missing = "reject"
[constants]
sr = { dtype = "int64", value = 16000 }
[outputs.score]
dtype = "float32"
shape = ["batch", 1]
meaning = "reject probability"
[runners.source]
kind = "recorded"
[runners.float]
kind       = "onnxruntime"
model      = "model.onnx"
providers  = ["CPUExecutionProvider"]
batch_size = 256
graph_optimization_level = "all"
intra_op_num_threads = 1
inputs  = { features = "serving_default_input:0" }
outputs = { score = "StatefulPartitionedCall:0" }
[[stages]]
name      = "conversion"
reference = "source"
candidate = "float"
flips     = { disposition = 0 }
[stages.outputs.score]
atol = 1e-6
rtol = 1e-5
nonfinite = "fail"
max_outlier_fraction = 0.0
max_abs = 1e-3
[decisions.disposition]
output = "score"
bands  = "accept < 0.2 <= review <= 0.8 < reject"
compare_as = "output"
[identity]
source_revision = "abc"
[operation]
owner = "quality"
[meta]
ticket = "T-1"
"""


def data(text: str = SHORT) -> dict[str, Any]:
    return tomllib.loads(text)


def problems(plan: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(PlanError) as caught:
        load_plan(plan)
    return {p.path: p.message for p in caught.value.problems}


def test_short_form_is_complete() -> None:
    plan = load_plan(data())
    (stage,) = plan.stages
    assert stage.name == "float-int8"
    assert stage.tolerances["score"].atol == 1e-3
    assert plan.runners["float"].kind == "onnxruntime"
    assert plan.decisions[0].bands is not None
    assert plan.decisions[0].bands.names == ("accept", "review", "reject")


def test_long_form_is_understood() -> None:
    plan = load_plan(data(LONG))
    assert plan.name == "bearing-advisory"
    assert plan.table.identity == {"source_revision": "abc"}
    assert plan.stages[0].tolerances["score"].max_abs == 1e-3
    assert plan.runners["float"].options.batch_size == 256


def test_canonical_plan_is_a_plan_with_the_same_meaning() -> None:
    for text in (SHORT, LONG):
        plan = load_plan(data(text), folder="/")
        again = load_plan(tomllib.loads(toml_text(plan.canonical())), folder="/")
        assert again.canonical() == plan.canonical()
        assert again.digest() == plan.digest()


def test_digest_follows_the_policy_and_not_its_spelling() -> None:
    spelled = data()
    spelled["stages"][0]["outputs"]["score"] |= {"nonfinite": "fail", "max_outlier_fraction": 0.0}
    stricter = data()
    stricter["stages"][0]["outputs"]["score"]["atol"] = 1e-4
    same = load_plan(spelled).digest()
    assert load_plan(data()).digest() == same
    assert load_plan(stricter).digest() != same


def test_all_problems_are_told_at_once_with_path_and_value() -> None:
    plan = data()
    plan["golden"] = []
    plan["colour"] = 1
    plan["stages"][0]["outputs"]["score"] = {"atol": float("nan"), "rtol": -1.0, "attol": 3.0}
    plan["stages"][0]["candidate"] = "int9"
    plan["stages"][0]["flips"] = {"dispositon": 1}
    plan["decisions"]["disposition"]["bands"] = "accept < 0.2 < review"
    plan["runners"]["int8"] = {"model": "m.onnx", "provider": ["CPUExecutionProvider"]}
    found = problems(plan)
    assert "finite" in found["stages[0].outputs.score.atol"]
    assert "nan" in found["stages[0].outputs.score.atol"]
    assert "-1" in found["stages[0].outputs.score.rtol"]
    assert "did you mean 'atol'" in found["stages[0].outputs.score.attol"]
    assert "did you mean 'int8'" in found["stages[0].candidate"]
    assert "did you mean 'disposition'" in found["stages[0].flips.dispositon"]
    assert "did you mean 'providers'" in found["runners.int8.provider"]
    assert "neither side" in found["decisions.disposition.bands"]
    assert "colour" in found
    assert "golden" in found


@pytest.mark.parametrize(
    ("change", "path", "word"),
    [
        ({"atol": 1.0}, "stages[0].outputs.score", "rtol"),
        ({"atol": 0.0, "rtol": 1.0}, "stages[0].outputs.score.rtol", "less than 1"),
        ({"atol": float("inf"), "rtol": 0.0}, "stages[0].outputs.score.atol", "finite"),
        ({"atol": "1e-3", "rtol": 0.0}, "stages[0].outputs.score.atol", "1e-3"),
        ({"atol": True, "rtol": 0.0}, "stages[0].outputs.score.atol", "True"),
        (
            {"atol": 0.0, "rtol": 0.0, "max_outlier_fraction": 0.1},
            "stages[0].outputs.score",
            "max_abs",
        ),
        (
            {"atol": 0.0, "rtol": 0.0, "nonfinite": "ignore"},
            "stages[0].outputs.score.nonfinite",
            "ignore",
        ),
    ],
)
def test_tolerances_that_would_let_things_pass_are_refused(
    change: dict[str, Any], path: str, word: str
) -> None:
    plan = data()
    plan["stages"][0]["outputs"]["score"] = change
    found = problems(plan)
    assert word in found[path]


def test_a_stage_without_tolerance_is_refused() -> None:
    plan = data()
    del plan["stages"][0]["outputs"]
    assert "tolerance" in problems(plan)["stages[0]"]


def test_a_decision_that_no_stage_compares_is_refused() -> None:
    plan = data()
    plan["decisions"]["disposition"]["output"] = "scor"
    assert "no stage compares" in problems(plan)["decisions.disposition.output"]


def test_two_stages_of_one_name_are_refused() -> None:
    plan = data()
    plan["stages"] *= 2
    assert "float-int8" in problems(plan)["stages"]


def test_an_unapproved_batch_size_is_refused_and_a_missing_one_filled() -> None:
    plan = data()
    plan["dims"] = {"batch": {"sizes": [1, 32]}}
    assert load_plan(plan).runners["float"].options.batch_size == 32
    plan["runners"]["int8"] = {"model": "m.onnx", "batch_size": 64}
    assert "64" in problems(plan)["runners.int8.batch_size"]


def test_overrides_reach_runners_stages_and_top_level() -> None:
    plan = apply_overrides(
        data(),
        [
            "runners.int8.model=other.onnx",
            "stages.float-int8.outputs.score.atol=1e-6",
            "stages.0.self=true",
            "min_samples=7",
        ],
    )
    assert plan["runners"]["int8"] == {"model": "other.onnx"}
    assert plan["stages"][0]["outputs"]["score"]["atol"] == 1e-6
    assert plan["stages"][0]["self"] is True
    assert plan["min_samples"] == 7


@pytest.mark.parametrize("entry", ["novalue", "=1", "stages.none.name=x", "golden.deep.er=1"])
def test_overrides_that_lead_nowhere_are_told(entry: str) -> None:
    with pytest.raises(PlanError):
        apply_overrides(data(), [entry])


def test_missing_and_broken_files(tmp_path: Path) -> None:
    with pytest.raises(PlanError, match="no such file"):
        load_plan(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("golden = [")
    with pytest.raises(PlanError, match="isn't valid TOML"):
        load_plan(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(PlanError, match="UTF-8"):
        load_plan(broken)
    broken.write_text("min_samples = " + "9" * 5_000)
    with pytest.raises(PlanError, match="too many digits"):
        load_plan(broken)


def test_what_is_no_regular_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    for path in (tmp_path / "pipe.toml", Path("/dev/zero")):
        with pytest.raises(PlanError, match="isn't a regular file"):
            load_plan(path)


def test_a_byte_order_mark_is_no_part_of_the_plan(tmp_path: Path) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(SHORT, encoding="utf-8")
    plain = load_plan(path).digest()
    path.write_text(SHORT, encoding="utf-8-sig")
    assert load_plan(path).digest() == plain


def test_labels_file_is_read_and_checked(tmp_path: Path) -> None:
    plan = data()
    plan["decisions"] = {"c": {"output": "score", "argmax": True, "labels": "labels.txt"}}
    with pytest.raises(PlanError, match="can't be read"):
        load_plan(plan, folder=tmp_path)
    (tmp_path / "labels.txt").write_text("cat\ndog\n\n")
    assert load_plan(plan, folder=tmp_path).decisions[0].labels == ("cat", "dog")


@pytest.mark.parametrize(
    ("text", "at"), [("cat\n\ndog\n", "2"), ("\ncat\n \ndog\n\n", "1, 3"), ("\n", "1")]
)
def test_a_blank_line_among_labels_moves_no_class(tmp_path: Path, text: str, at: str) -> None:
    (tmp_path / "labels.txt").write_text(text)
    plan = data()
    plan["decisions"] = {"c": {"output": "score", "equal": True, "labels": "labels.txt"}}
    with pytest.raises(PlanError, match=rf"decisions.c.labels: name {at} is blank"):
        load_plan(plan, folder=tmp_path)
    plan["decisions"]["c"]["labels"] = text.rstrip().split("\n")
    with pytest.raises(PlanError, match=rf"decisions.c.labels: name {at} is blank"):
        load_plan(plan, folder=tmp_path)


def test_planless_form_makes_a_plan() -> None:
    plan = plan_from_models(
        "a.onnx", "b.onnx", "g.arrow", atol=1e-3, rtol=1e-3, bands=["score: a < 0.5 <= b"]
    )
    loaded = load_plan(tomllib.loads(toml_text(plan)))
    assert loaded.decisions[0].output == "score"
    with pytest.raises(PlanError, match="rtol"):
        plan_from_models("a.onnx", "b.onnx", "g.arrow", atol=1e-3)
    with pytest.raises(PlanError, match="OUTPUT"):
        plan_from_models("a.onnx", "b.onnx", "g.arrow", bands=["a < 0.5 <= b"])


def test_padding_of_tails() -> None:
    sizes = BatchDim(sizes=[1, 8, 32])
    assert [sizes.padded(n, 32) for n in (1, 2, 8, 9, 32)] == [1, 8, 8, 32, 32]
    span = BatchDim(min=4, max=16)
    assert [span.padded(n, 16) for n in (1, 4, 9, 16)] == [4, 4, 9, 16]


@pytest.mark.parametrize("batches", [[], [1], [256], [3, 7], [1, 32], [5000], [4096, 4095]])
@pytest.mark.parametrize("sample_bytes", [0, 4, 1000, 10**6, 10**9])
@pytest.mark.parametrize("max_samples", [8_192, 65_536])
@pytest.mark.parametrize("is_run", [False, True])
def test_blocks_cover_every_sample_once(
    batches: list[int], sample_bytes: int, max_samples: int, is_run: bool
) -> None:
    sizes = BlockSizes.of(sample_bytes, batches, max_samples)
    sizes = sizes.of_batches() if is_run else sizes
    least, most = sizes.least, sizes.most
    assert max(batches, default=1) <= least <= most
    for samples in (0, 1, least - 1, least, least + 1, 3 * most + 2, 20 * most):
        blocks = cut_blocks(samples, sizes)
        assert [b.start for b in blocks] == [0, *(b.stop for b in blocks)][: len(blocks)]
        assert sum(b.samples for b in blocks) == samples
        assert [b.number for b in blocks] == list(range(len(blocks)))
        assert all(least <= b.samples <= most for b in blocks[:-1])


def test_what_is_run_in_batches_ends_in_small_blocks() -> None:
    sizes = BlockSizes.of(300, [256])
    assert (sizes.least, sizes.most) == (2048, 8192)
    assert (sizes.of_batches().least, sizes.of_batches().most) == (1024, 8192)
    assert BlockSizes.of(300, [4096]).of_batches().least == 4096  # a batch
    assert BlockSizes.of(4000, [256]).of_batches() == BlockSizes.of(4000, [256])  # already less


def test_blocks_whose_batches_are_shared_have_one_size() -> None:
    sizes = BlockSizes.of(300, [256])
    assert [b.samples for b in cut_blocks(70_000, sizes.even(70_000))] == [8192] * 8 + [4464]
    assert [b.samples for b in cut_blocks(20_000, sizes.even(20_000))] == [2304] * 8 + [1568]
    assert [b.samples for b in cut_blocks(3_000, sizes.even(3_000))] == [1024, 1024, 952]
    assert [b.samples for b in cut_blocks(300, sizes.even(300))] == [300]


@pytest.mark.parametrize("is_run", [False, True])
def test_only_the_last_block_has_a_padded_tail(is_run: bool) -> None:
    sizes = BlockSizes.of(4000, [3, 7])
    blocks = cut_blocks(100_001, sizes.of_batches() if is_run else sizes)
    assert all(b.samples % 21 == 0 and b.place == b.start for b in blocks[:-1])
    assert blocks[0].samples > 5 * blocks[-2].samples
    # Sizes without a small common multiple: the batches of a block stay within it.
    assert all(b.place == -1 for b in cut_blocks(100_000, BlockSizes.of(10**6, [4096, 4095])))


def test_messages_are_in_words_of_the_plan() -> None:
    plan = data()
    plan |= {"golden": [1], "name": 3, "dims": [1], "min_samples": 0, "slices": "site"}
    plan["stages"] = []
    found = problems(plan)
    assert found["golden[0]"] == "is a text (found 1)"
    assert found["name"] == "is a text (found 3)"
    assert found["dims"] == "is a table (found a list)"
    assert found["slices"] == "is a list (found 'site')"
    assert found["stages"].startswith("is empty")
    assert not any("valid" in message or "Dims" in message for message in found.values())


def test_thousands_of_problems_are_counted_not_printed() -> None:
    plan = data()
    plan |= {f"unknown{i}": i for i in range(3000)}
    with pytest.raises(PlanError) as caught:
        load_plan(plan)
    assert len(caught.value.problems) == 3000
    assert len(str(caught.value).splitlines()) < 60
    assert "and 2950 more" in str(caught.value)


def test_dates_and_nan_in_meta_survive() -> None:
    plan = data() | {"meta": tomllib.loads("when = 2026-01-02T03:04:05Z\nvalue = nan")}
    canonical = load_plan(apply_overrides(plan, ["min_samples=2"])).canonical()
    assert canonical["meta"]["when"] == "2026-01-02T03:04:05Z"
    assert math.isnan(canonical["meta"]["value"])


@pytest.mark.parametrize("entry", ["runners.int9.model=a.onnx", "runners.int9=a.onnx"])
def test_an_override_of_a_runner_that_no_stage_compares_is_refused(entry: str) -> None:
    with pytest.raises(PlanError) as caught:
        apply_overrides(data(), [entry])
    (problem,) = caught.value.problems
    assert problem.path == entry.partition("=")[0]
    assert "no stage compares a runner named 'int9'; did you mean 'int8'?" in problem.message
    added = apply_overrides(data(), [entry, "stages.0.candidate=int9"])
    assert added["stages"][0]["candidate"] == "int9"


def test_a_value_where_a_table_belongs_is_told_how_to_write_it() -> None:
    found = problems({**data(), "constants": {"sr": 16000}, "dims": {"batch": 32, "seq": 7}})
    form = 'sr = { dtype = "int64", value = 16000 }'
    assert found["constants.sr"] == f"is a table (found 16000); write it as in {form}"
    assert "batch = { sizes = [1, 32] }" in found["dims.batch"]
    assert "seq = { min = 1, max = 512 }" in found["dims.seq"]
