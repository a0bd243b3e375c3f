"""Functions that end the process, write into what they are given, or share state."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.packs import write_pack
from tests.runners.contract import context_of, make_batch, spec_of

import paritygate
from paritygate.core.errors import ParityError, RunnerError, RunnerLoadError
from paritygate.runners.base import Runner
from paritygate.runners.python import PythonRunner
from paritygate.runners.registry import prepare

X = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
ENDS = [
    "import sys; sys.exit(0)",
    "raise SystemExit",
    "raise GeneratorExit('gone')",
    "import asyncio; raise asyncio.CancelledError()",
    "raise type('Own', (BaseException,), {'__str__': lambda e: 1 / 0})()",
]
IN_A_THREAD = "raise KeyboardInterrupt('of its own')"


def load(folder: Path, source: str, table: object = "side:f") -> Runner:
    (folder / "side.py").write_text(source)
    return prepare(spec_of(table), context_of(folder))


def plan_of(folder: Path, cand: str, samples: int = 3, **options: Any) -> dict[str, Any]:
    """The reference doubles x; the candidate is `cand`, in the same module."""
    (folder / "side.py").write_text(f"def ref(d):\n    return {{'y': d['x'] * 2}}\n{cand}")
    x = np.arange(samples * 4, dtype=np.float32).reshape(samples, 4)
    write_pack(folder / "g.arrow", np.arange(samples), {"x": x})
    return {
        "golden": str(folder / "g.arrow"),
        "runners": {
            name: {"call": f"side:{name}", "batch_size": 1, **options} for name in ("ref", "cand")
        },
        "stages": [
            {"reference": "ref", "candidate": "cand", "outputs": {"y": {"atol": 0.0, "rtol": 0.0}}}
        ],
    }


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("body", [*ENDS, IN_A_THREAD])
@pytest.mark.parametrize("thread_safe", [False, True])
def test_what_ends_a_process_ends_a_batch(at: Path, body: str, thread_safe: bool) -> None:
    cand = f"def cand(d):\n    if d['x'][0, 0] == 4: {body}\n    return {{'y': d['x'] * 2}}\n"
    result = paritygate.run(plan_of(at, cand, thread_safe=thread_safe), out=None)
    assert result.verdict == "hold"
    (reason,) = result.reasons
    assert reason.code == "runner.disagreement"
    assert reason.count == 1
    assert result.summary["stages"][0]["samples"]["compared"] == 2


@pytest.mark.parametrize("body", ENDS)
def test_in_the_main_thread_too(tmp_path: Path, body: str) -> None:
    with pytest.raises(RunnerError, match=r"batch 0 .*\(side.py, line 1\)"):
        load(tmp_path, f"def f(d): {body}\n").session().run(make_batch(X))


def test_the_users_own_interrupt_is_no_error_of_the_function(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        load(tmp_path, "def f(d): raise KeyboardInterrupt\n").session().run(make_batch(X))


@pytest.mark.parametrize("body", [*ENDS, IN_A_THREAD])
def test_a_module_that_ends_the_process_does_not_load(at: Path, body: str) -> None:
    plan = plan_of(at, "def cand(d): return d\n")
    (at / "other.py").write_text(f"{body}\n")
    plan["runners"]["cand"]["call"] = "other:f"
    result = paritygate.run(plan, out=None)
    assert result.verdict == "hold"
    assert [r.code for r in result.reasons] == ["runner.load_failed", "stage.not_run"]
    assert "importing 'other'" in result.reasons[0].message
    assert "(other.py, line 1)" in result.reasons[0].message


def test_a_modules_attributes_may_raise(tmp_path: Path) -> None:
    with pytest.raises(RunnerLoadError, match=r"SystemExit: 0 \(side.py, line 1\)"):
        load(tmp_path, "def __getattr__(name): raise SystemExit(0)\n")


def test_no_other_thread_can_end_the_process(at: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from paritygate.pipeline import drive

    def leave(*_: object) -> None:
        raise SystemExit(0)

    monkeypatch.setattr(drive, "read_block", leave)
    with pytest.raises(RuntimeError, match="SystemExit ended a thread"):
        paritygate.run(plan_of(at, "def cand(d): return d\n"), out=None)


FORCE = (
    "import ctypes\n"
    "import numpy as np\n"
    "def force(a):\n"
    "    ctypes.memset(a.ctypes.data, 0, a.nbytes)\n"
)


def test_no_function_can_change_what_another_is_given(at: Path) -> None:
    plan = plan_of(at, "")
    plan["constants"] = {"c": {"dtype": "float64", "value": 1.0}}
    (at / "side.py").write_text(
        f"{FORCE}"
        "def ref(d):\n"
        "    y = d['x'] * 2 + d['c']\n"
        "    force(d['x']), force(d['c'])\n"
        "    return {'y': y}\n"
        "def cand(d):\n"
        "    return {'y': d['x'] * 2 + d['c']}\n"
    )
    assert paritygate.run(plan, out=None).verdict == "release"


def test_copies_are_private_and_read_only_but_not_a_files(tmp_path: Path) -> None:
    seen: list[np.ndarray] = []
    constant = np.array(3.0)

    def keep(d: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        seen.extend(d.values())
        return {"y": d["x"]}

    runner = PythonRunner.from_callable("r", keep, constants={"c": constant})
    batch = make_batch(X)
    outputs = runner.session().run(batch).outputs
    given = [constant, *batch.inputs.values()]
    for own in seen:
        assert not own.flags.writeable
        assert own.flags.owndata
        assert own.flags.c_contiguous
        assert not any(np.shares_memory(own, other) for other in (*given, *outputs.values()))


def test_functions_of_one_module_never_run_at_once(tmp_path: Path) -> None:
    source = (
        "import time\n"
        "inside, most = 0, 0\n"
        "def f(d):\n"
        "    global inside, most\n"
        "    inside += 1\n"
        "    most = max(most, inside)\n"
        "    time.sleep(0.01)\n"
        "    inside -= 1\n"
        "    return {'most': d['x'] * 0 + most}\n"
        "def g(d): return f(d)\n"
    )
    runners = [load(tmp_path, source, f"side:{name}") for name in "fg"]
    most: list[float] = []

    def work(runner: Runner) -> None:
        for _ in range(10):
            most.append(float(runner.session().run(make_batch(X)).outputs["most"].max()))

    threads = [threading.Thread(target=work, args=(runner,)) for runner in runners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1.0] * 20


@pytest.mark.parametrize("kind", ["list", "tuple"])
def test_named_outputs_may_be_a_sequence(tmp_path: Path, kind: str) -> None:
    source = f"def f(d): return {kind}((d['x'], d['x'] + 1))\n"
    runner = load(tmp_path, source, {"call": "side:f", "outputs": ["a", "b"]})
    outputs = runner.session().run(make_batch(X)).outputs
    assert (outputs["a"] == X).all()
    assert (outputs["b"] == X + 1).all()
    short = load(tmp_path, source, {"call": "side:f", "outputs": ["a", "b", "c"]})
    with pytest.raises(RunnerError, match="returned 2 outputs for the 3 names a, b, c"):
        short.session().run(make_batch(X))


def test_verify_takes_a_sequence() -> None:
    result = paritygate.verify(
        lambda d: (d["x"] * 2, d["x"] * 3),
        lambda d: [d["x"] + d["x"], d["x"] * 4],
        {"x": X},
        atol=0.0,
        rtol=0.0,
        outputs=["double", "triple"],
    )
    assert [r.output for r in result.reasons] == ["triple"]


def test_a_sequence_without_names_is_refused() -> None:
    with pytest.raises((ParityError, AssertionError), match="returned a tuple; return a dict"):
        paritygate.verify(
            lambda d: (d["x"],), lambda d: (d["x"],), {"x": X}, atol=0.0, rtol=0.0
        ).raise_for_hold()
