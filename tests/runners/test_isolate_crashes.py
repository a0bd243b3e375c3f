"""What ends a runner's own process costs the samples that do it; all others are compared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.packs import write_pack

import paritygate
from paritygate.api.plans import load_plan
from paritygate.pipeline.execute import Options, Outcome, execute

SAMPLES, WIDTH = 1_010, 4
BATCH = 8  # a search halves it, and starts a process each time
BAD = (17, 300, 301)
POISON = 999.0
GOOD = "def good(d):\n    return {'y': d['x'] * 2}\n"
ENDS = {
    "SIGSEGV": "os.kill(os.getpid(), signal.SIGSEGV)",
    "SIGBUS": "os.kill(os.getpid(), signal.SIGBUS)",
    "SIGABRT": "os.abort()",
    "SIGKILL": "os.kill(os.getpid(), signal.SIGKILL)",
    "status 0": "os._exit(0)",
    "status 7": "os._exit(7)",
}


def inputs(bad: Sequence[int] = BAD) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(3).normal(size=(SAMPLES, WIDTH)).astype(np.float32)
    x[list(bad), 0] = POISON
    return x


def bad(body: str) -> str:
    """A function that does something where a sample is poisoned."""
    return (
        "import os, signal, sys, time\n"
        f"{GOOD}\n"
        "def bad(d):\n"
        f"    for i in range(int((d['x'][:, 0] == {POISON}).any())):\n"
        f"        {body}\n"
        "        time.sleep(60)\n"
        "    return {'y': d['x'] * 2}\n"
    )


def make(folder: Path, code: str, isolate: object = None, **more: Any) -> dict[str, Any]:
    """A plan that compares good with bad, the latter isolated, over poisoned samples."""
    (folder / "side.py").write_text(code)
    x = inputs(more.pop("poisoned", BAD))
    write_pack(folder / "g.arrow", np.arange(SAMPLES), {"x": x})
    candidate = {"call": "side:bad", "batch_size": BATCH, **more}
    if isolate is not None:
        candidate["isolate"] = isolate
    return {
        "golden": "g.arrow",
        "runners": {"good": {"call": "side:good", "batch_size": BATCH}, "bad": candidate},
        "stages": [
            {
                "name": "s",
                "reference": "good",
                "candidate": "bad",
                "default": {"atol": 0.0, "rtol": 0.0},
            }
        ],
        "decisions": {"top": {"output": "y", "argmax": True}},
    }


def run(folder: Path, plan: dict[str, Any], **options: Any) -> Outcome:
    return execute(load_plan(plan, folder=folder), Options(**options))


def figures(outcome: Outcome) -> dict[str, Any]:
    """All that was measured of samples that both sides answered, to the bit."""
    told = outcome.tally.to_json()["stages"]["s"]
    kept = ("compared", "outputs", "decisions", "slices", "constant")
    return {key: told[key] for key in kept}


@pytest.mark.slow
@pytest.mark.parametrize("end", ENDS)
def test_the_guilty_fail_and_all_others_are_compared(tmp_path: Path, end: str) -> None:
    guilty = BAD if end in ("SIGSEGV", "status 0") else BAD[:1]
    plan = make(tmp_path, bad(ENDS[end]), "process", poisoned=guilty)
    outcome = run(tmp_path, plan, out=tmp_path / "runs")
    assert outcome.judgement.verdict == "hold"
    (reason,) = outcome.judgement.reasons
    count = len(guilty)
    assert (reason.code, reason.count, reason.ids) == ("runner.crashed", count, guilty)
    assert end in reason.message
    assert "the reference answered y float32[batch, 4]" in reason.message
    samples = outcome.summary["stages"][0]["samples"]
    assert samples["compared"] == SAMPLES - count
    assert samples["errors"] == samples["failed"] == count
    told = outcome.summary["runners"]["bad"]["isolation"]
    assert told["failed_samples"] == count
    assert told["restarts"] >= 2 * count
    assert told["regrouped_samples"] == (2 * BATCH if guilty == BAD else BATCH) - count
    # In this process, a sample a batch: the bad ones raise, the others are compared.
    plain = make(tmp_path, bad("raise ValueError"), batch_size=1, poisoned=guilty)
    assert figures(run(tmp_path, plain)) == figures(outcome)


@pytest.mark.slow
def test_a_failure_row_says_how_the_process_ended(tmp_path: Path) -> None:
    code = bad("print('the last words', file=sys.stderr); os.kill(os.getpid(), 11)")
    outcome = run(tmp_path, make(tmp_path, code, "process"), out=tmp_path / "runs")
    (reason,) = outcome.judgement.reasons
    assert "the last words" in reason.message + reason.detail
    assert outcome.folder is not None
    with pa.ipc.open_file(outcome.folder / "failures" / "s-00000.arrow") as file:
        rows = file.read_all().to_pylist()
    assert [row["sample_id"] for row in rows] == list(BAD)
    for row in rows:
        assert row["rules"] == ["runner.crashed"]
        assert "SIGSEGV" in row["error"]
        assert "the last words" in row["error"]
        assert f"id {row['sample_id']}, alone" in row["error"]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_blames_the_same_samples(tmp_path: Path, threads: int) -> None:
    plan = make(tmp_path, bad(ENDS["SIGSEGV"]), "process", thread_safe=True)
    plan["runners"]["good"]["thread_safe"] = True
    outcome = run(tmp_path, plan, threads=threads, cuts=(101,) * 10)
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.ids) == ("runner.crashed", BAD)
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES - 3
    assert outcome.summary["runners"]["bad"]["isolation"]["unexplained_ends"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("body", ["while True: pass", "time.sleep(1e6)"])
def test_what_is_late_fails_by_its_deadline(tmp_path: Path, body: str) -> None:
    plan = make(tmp_path, bad(body), {"batch_timeout_s": 1.0}, poisoned=(40,))
    outcome = run(tmp_path, plan)
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.count, reason.ids) == ("runner.timeout", 1, (40,))
    assert "longer than 1 s (batch_timeout_s)" in reason.message
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES - 1


@pytest.mark.slow
def test_a_crash_that_does_not_come_back_holds_and_is_told(tmp_path: Path) -> None:
    code = bad("os.path.exists('once') or (open('once', 'w'), os.abort()); break")
    code = code.replace("'once'", repr(str(tmp_path / "once")))
    outcome = run(tmp_path, make(tmp_path, code, "process"))
    (reason,) = outcome.judgement.reasons
    assert reason.code == "runner.crashed"
    assert "not reproducible" in reason.message
    assert "SIGABRT" in reason.message
    assert reason.message.startswith("runner 'bad': while batch 2 (ids 16 to 23) ran, its process")
    assert "ids 16 to 23" in reason.message
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES
    assert outcome.summary["runners"]["bad"]["isolation"]["regrouped_samples"] == 0


@pytest.mark.slow
def test_a_crash_that_takes_two_samples_blames_none_and_holds(tmp_path: Path) -> None:
    code = bad("pass").replace(".any())", ".sum() == 2)").replace("time.sleep(60)", "os.abort()")
    outcome = run(tmp_path, make(tmp_path, code, "process", poisoned=(2, 5)))
    (reason,) = outcome.judgement.reasons
    assert reason.code == "runner.crashed"
    assert "no sample of it does so alone" in reason.message
    assert outcome.summary["stages"][0]["samples"]["compared"] == SAMPLES
    assert outcome.summary["runners"]["bad"]["isolation"]["regrouped_samples"] == BATCH


@pytest.mark.slow
def test_beyond_max_crashes_nothing_more_is_run(tmp_path: Path) -> None:
    poisoned = (3, 200, 400, 600, 800)
    plan = make(tmp_path, bad(ENDS["SIGABRT"]), {"max_crashes": 2}, poisoned=poisoned)
    outcome = run(tmp_path, plan, threads=1)
    codes = {r.code: r for r in outcome.judgement.reasons}
    assert set(codes) == {"runner.crashed", "runner.stopped"}
    assert codes["runner.crashed"].ids == poisoned[:3]
    stopped = codes["runner.stopped"]
    assert "more than max_crashes = 2" in stopped.message
    samples = outcome.summary["stages"][0]["samples"]
    assert stopped.count is not None
    assert samples["compared"] + stopped.count + 3 == SAMPLES
    assert stopped.count >= SAMPLES - 512
    assert "max_crashes" in outcome.summary["runners"]["bad"]["isolation"]["stopped"]


@pytest.mark.slow
def test_both_sides_end_their_process(tmp_path: Path) -> None:
    plan = make(tmp_path, bad(ENDS["SIGABRT"]), "process", poisoned=(9,))
    plan["runners"]["good"] = {**plan["runners"]["bad"], "batch_size": BATCH // 2}
    outcome = run(tmp_path, plan)
    assert [(r.code, r.ids) for r in outcome.judgement.reasons] == [("runner.crashed", (9,))] * 2
    assert not any("answered" in r.message for r in outcome.judgement.reasons)


@pytest.mark.slow
def test_the_reference_crashes_and_the_candidate_answers(tmp_path: Path) -> None:
    plan = make(tmp_path, bad(ENDS["SIGSEGV"]), "process", poisoned=(9,))
    stage = plan["stages"][0]
    stage["reference"], stage["candidate"] = "bad", "good"
    outcome = run(tmp_path, plan)
    (reason,) = outcome.judgement.reasons
    assert reason.code == "runner.crashed"
    assert "the reference ('bad') ended its process for 1 of" in reason.message
    assert "the candidate answered y" in reason.message


@pytest.mark.slow
def test_the_checks_after_the_run_leave_the_guilty_out(tmp_path: Path) -> None:
    plan = make(tmp_path, bad(ENDS["SIGSEGV"]), {"max_crashes": 3}, poisoned=BAD)
    plan["dims"] = {"batch": {"sizes": [BATCH // 2, BATCH]}}
    outcome = run(tmp_path, plan)
    (reason,) = outcome.judgement.reasons
    assert reason.code == "runner.crashed"
    assert outcome.summary["runners"]["bad"]["isolation"]["failed_samples"] == 3


@pytest.mark.slow
@pytest.mark.parametrize("value", ["import os; os.abort()", "import time; time.sleep(60)"])
def test_a_candidate_that_ends_while_it_loads_holds(tmp_path: Path, value: str) -> None:
    plan = make(tmp_path, GOOD, poisoned=())
    (tmp_path / "broken.py").write_text(f"print('loading it')\n{value}\n{GOOD}")
    plan["runners"]["bad"] = {"call": "broken:good", "isolate": {"load_timeout_s": 3}}
    outcome = run(tmp_path, plan)
    first, second = outcome.judgement.reasons
    assert (first.code, second.code) == ("runner.load_failed", "stage.not_run")
    assert ("SIGABRT" in first.message) == ("abort" in value)
    assert ("within 3 s" in first.message) == ("sleep" in value)
    assert "loading it" in first.message


@pytest.mark.slow
def test_a_reference_that_ends_while_it_loads_is_unjudged(tmp_path: Path) -> None:
    plan = make(tmp_path, GOOD, poisoned=())
    (tmp_path / "broken.py").write_text(f"import os; os.abort()\n{GOOD}")
    plan["runners"]["good"] = {"call": "broken:good", "isolate": "process"}
    plan["runners"]["bad"] = {"call": "side:good"}
    with pytest.raises(paritygate.ParityError, match="SIGABRT") as caught:
        run(tmp_path, plan)
    assert (caught.value.code, caught.value.exit_code) == ("runner.load_failed", 2)


def save(path: Path, nodes: list[Any], output: int, constants: Sequence[Any] = ()) -> None:
    """A model of one batch: n int64 [1, 1] -> y [1, 1]."""
    shape = [1, 1]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("n", TensorProto.INT64, shape)],
        [helper.make_tensor_value_info("y", output, shape)],
        list(constants),
    )
    opset = helper.make_opsetid("", 21)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=10), path)


def ints(name: str, values: Sequence[int]) -> Any:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def loop_model(path: Path) -> None:
    """y = 1, added n times to 0."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go"], ["go_on"]),
            helper.make_node("Add", ["held", "one"], ["more"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("held", TensorProto.INT64, [1, 1]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("more", TensorProto.INT64, [1, 1]),
        ],
    )
    nodes = [
        helper.make_node("Squeeze", ["n"], ["trips"]),
        helper.make_node("Loop", ["trips", "", "zero"], ["y"], body=body),
    ]
    zero, one = ints("zero", [0]), ints("one", [1])
    zero.dims[:], one.dims[:] = [1, 1], [1, 1]
    save(path, nodes, TensorProto.INT64, [zero, one])


def matmul_of_size(path: Path) -> None:
    """y = n, the mean of a product of two n x n matrices of ones."""
    value = helper.make_tensor("value", TensorProto.FLOAT, [1], [1.0])
    nodes = [
        helper.make_node("Concat", ["n", "n"], ["pair"], axis=1),
        helper.make_node("Reshape", ["pair", "two"], ["dims"]),
        helper.make_node("ConstantOfShape", ["dims"], ["ones"], value=value),
        helper.make_node("MatMul", ["ones", "ones"], ["product"]),
        helper.make_node("ReduceMean", ["product"], ["y"], keepdims=1),
    ]
    save(path, nodes, TensorProto.FLOAT, [ints("two", [2])])


@pytest.mark.slow
def test_a_loop_of_onnx_without_end_is_ended(tmp_path: Path) -> None:
    x = np.arange(12, dtype=np.int64).reshape(12, 1) % 3
    x[7] = 1 << 60
    write_pack(tmp_path / "g.arrow", np.arange(12), {"n": x})
    loop_model(tmp_path / "loop.onnx")
    plan = {
        "golden": "g.arrow",
        "runners": {
            "ref": "loops:count",
            "cand": {
                "model": "loop.onnx",
                "batch_size": 1,
                "isolate": {"batch_timeout_s": 1.0},
            },
        },
        "stages": [{"reference": "ref", "candidate": "cand", "default": {"atol": 0, "rtol": 0}}],
    }
    (tmp_path / "loops.py").write_text("def count(d):\n    return {'y': d['n'].copy()}\n")
    outcome = run(tmp_path, plan)
    assert [(r.code, r.ids) for r in outcome.judgement.reasons] == [("runner.timeout", (7,))]
    assert outcome.summary["stages"][0]["samples"]["compared"] == 11


@pytest.mark.slow
def test_one_long_kernel_is_ended(tmp_path: Path) -> None:
    write_pack(tmp_path / "g.arrow", np.arange(3), {"n": np.array([[4], [8_000], [5]])})
    matmul_of_size(tmp_path / "long.onnx")
    plan = {
        "golden": "g.arrow",
        "runners": {
            "ref": "side:ref",
            "cand": {"model": "long.onnx", "batch_size": 1, "isolate": {"batch_timeout_s": 1.0}},
        },
        "stages": [{"reference": "ref", "candidate": "cand", "default": {"atol": 0, "rtol": 0}}],
    }
    (tmp_path / "side.py").write_text(
        "import numpy as np\ndef ref(d):\n    return {'y': d['n'].astype(np.float32)}\n"
    )
    outcome = run(tmp_path, plan)
    assert [(r.code, r.ids) for r in outcome.judgement.reasons] == [("runner.timeout", (1,))]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("np.ones(3 << 30, np.uint8)", "runner.disagreement"),  # MemoryError, which it survives
        ("(ctypes.c_char * (3 << 30))() if 0 else libc.abort()", "runner.crashed"),
    ],
)
def test_a_memory_limit_bounds_a_process(tmp_path: Path, body: str, code: str) -> None:
    head = "import ctypes\nimport numpy as np\nlibc = ctypes.CDLL(None)\n"
    plan = make(tmp_path, head + bad(body), {"memory_limit": "2 GiB"}, poisoned=(40,), batch_size=1)
    outcome = run(tmp_path, plan)
    (reason,) = outcome.judgement.reasons
    assert (reason.code, reason.ids) == (code, (40,))
    assert outcome.summary["runners"]["bad"]["isolation"]["memory_limit_bytes"] == 2 << 30
    peak = outcome.summary["runners"]["bad"]["isolation"]["peak_memory_bytes"]
    assert 20 << 20 < peak < 2 << 30
