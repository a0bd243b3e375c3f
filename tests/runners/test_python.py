"""Functions of the plan's folder or of this process, and what they do wrong."""

from __future__ import annotations

import os
import py_compile
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from tests.runners.contract import context_of, make_batch, spec_of

from paritygate.core.errors import RunnerError, RunnerLoadError
from paritygate.runners.base import Runner
from paritygate.runners.python import PythonRunner
from paritygate.runners.python_import import find_function
from paritygate.runners.registry import prepare

X = np.ones((3, 4), np.float32)


def load(folder: Path, source: str, table: object = "side:f") -> Runner:
    (folder / "side.py").write_text(source)
    return prepare(spec_of(table), context_of(folder))


def failure(runner: Runner) -> str:
    with pytest.raises(RunnerError) as caught:
        runner.session().run(make_batch(X))
    return str(caught.value)


def test_the_plans_folder_comes_first(tmp_path: Path) -> None:
    answers = []
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "helper_of_side.py").write_text("")
        source = f"import helper_of_side\ndef f(d): return {{'y': d['x'] * {len(answers)}}}\n"
        (folder / "json.py").write_text(source)
        runner = prepare(spec_of("json:f"), context_of(folder))
        answers.append(runner.session().run(make_batch(X)).outputs["y"][0, 0])
    assert answers == [0.0, 1.0]
    assert str(tmp_path / "one") not in sys.path


def test_an_installed_module_will_do(tmp_path: Path) -> None:
    runner = prepare(spec_of({"call": "copy:deepcopy", "batch_size": 3}), context_of(tmp_path))
    assert runner.limits.batch_sizes == (3,)
    assert (runner.session().run(make_batch(X)).outputs["x"] == X).all()


def test_inputs_are_read_only(tmp_path: Path) -> None:
    runner = load(tmp_path, "def f(d):\n    d['x'][0] = 7\n    return d\n")
    text = failure(runner)
    assert "ValueError" in text
    assert "read-only" in text
    assert "(side.py, line 2)" in text
    assert "Traceback" not in text


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return d['x']", "returned a plain array"),
        ("return [1]", "returned a list; return a dict"),
        ("return None", "returned a NoneType"),
        ("return {1: d['x']}", "output names are text (found 1)"),
        ("return {'y': 1.5}", "output 'y' is a float, not a numpy array"),
        ("return {'y': d['x'].sum()}", "wrap a numpy scalar in an array"),
        ("return {'y': d['x'][:2]}", "its first axis must be the batch of 3 samples"),
        ("raise KeyError('absent')", "KeyError: 'absent' (side.py, line 1)"),
        ("return {'y': d['no']}", "KeyError: 'no'"),
        ("import sys; return {'y': sys.exit}", "is a builtin_function_or_method"),
    ],
)
def test_unusable_functions(tmp_path: Path, body: str, message: str) -> None:
    assert message in failure(load(tmp_path, f"def f(d): {body}\n"))


def test_a_named_output_may_be_a_plain_array(tmp_path: Path) -> None:
    table = {"call": "side:f", "outputs": ["score"]}
    runner = load(tmp_path, "def f(d): return d['x'] + 1\n", table)
    assert (runner.session().run(make_batch(X)).outputs["score"] == 2).all()


def test_named_outputs_must_come(tmp_path: Path) -> None:
    table = {"call": "side:f", "outputs": ["score"]}
    runner = load(tmp_path, "def f(d): return {'y': d['x']}\n", table)
    assert "returned ['y'], not ['score']" in failure(runner)


def test_constants_are_passed(tmp_path: Path) -> None:
    (tmp_path / "side.py").write_text("def f(d): return {'y': d['x'] + d['c']}\n")
    context = context_of(tmp_path, None, {"c": np.array(5, np.float32)})
    runner = prepare(spec_of("side:f"), context)
    assert (runner.session().run(make_batch(X)).outputs["y"] == 6).all()


def test_a_view_of_an_input_is_copied(tmp_path: Path) -> None:
    runner = load(tmp_path, "def f(d): return {'y': d['x'].T.T[::1]}\n")
    x = X.copy()
    lease = runner.session().run(make_batch(x))
    assert not np.shares_memory(lease.outputs["y"], x)
    assert lease.outputs["y"].flags.c_contiguous


def test_masked_arrays_are_refused(tmp_path: Path) -> None:
    source = "import numpy as np\ndef f(d): return {'y': np.ma.masked_array(d['x'], d['x'] > 0)}\n"
    assert "masked array" in failure(load(tmp_path, source))


@pytest.mark.parametrize(
    ("call", "source", "is_plan_fault", "message"),
    [
        ("nowhere:f", "", True, "no module 'nowhere'"),
        ("nowhere.deep:f", "", True, "no module 'nowhere'"),
        ("side:g", "def gg(d): pass", True, "has no 'g'"),
        ("side:value", "value = 3", True, "is a int, not a function"),
        ("side:f", "import surely_absent_module", False, "surely_absent_module"),
        ("side:f", "raise RuntimeError('boom')", False, "RuntimeError: boom (side.py, line 1)"),
        ("side:f", "def f(:", False, "SyntaxError"),
    ],
)
def test_what_does_not_load(
    tmp_path: Path, call: str, source: str, is_plan_fault: bool, message: str
) -> None:
    with pytest.raises(RunnerLoadError) as caught:
        load(tmp_path, source, {"call": call})
    assert caught.value.is_plan_fault is is_plan_fault
    assert message in str(caught.value)


def test_one_thread_at_a_time_unless_it_says_so(tmp_path: Path) -> None:
    source = (
        "import threading, time\n"
        "inside, most = 0, 0\n"
        "def f(d):\n"
        "    global inside, most\n"
        "    inside += 1\n"
        "    most = max(most, inside)\n"
        "    time.sleep(0.01)\n"
        "    inside -= 1\n"
        "    return {'y': d['x'], 'most': d['x'] * 0 + most}\n"
    )
    runner = load(tmp_path, source)
    assert not runner.limits.thread_safe
    most = []

    def work() -> None:
        for _ in range(5):
            most.append(runner.session().run(make_batch(X)).outputs["most"].max())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1.0] * 20
    safe = load(tmp_path, source, {"call": "side:f", "thread_safe": True})
    assert safe.limits.thread_safe


def test_identity_follows_source_and_function(tmp_path: Path) -> None:
    source = "def f(d): return d\ndef g(d): return d\n"
    f = load(tmp_path, source)
    assert f.identity == load(tmp_path, source).identity
    assert f.identity != load(tmp_path, source, "side:g").identity
    assert f.identity != load(tmp_path, source + "#\n").identity


def test_function_objects(tmp_path: Path) -> None:
    def make(factor: int) -> PythonRunner:
        return PythonRunner.from_callable("r", lambda d: {"y": d["x"] * factor})

    def double(d: dict[str, np.ndarray]) -> np.ndarray:
        return d["x"] * 2

    class Model:
        def predict(self, d: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {"y": d["x"]}

        __call__ = predict

    one, other = make(1), make(2)
    assert one.identity != other.identity
    assert (other.session().run(make_batch(X)).outputs["y"] == 2).all()
    same = [PythonRunner.from_callable("r", double, outputs=["y"]) for _ in range(2)]
    assert same[0].identity == same[1].identity
    assert (same[0].session().run(make_batch(X)).outputs["y"] == 2).all()
    left, right = Model(), Model()
    bound = [PythonRunner.from_callable("r", m.predict) for m in (left, left, right)]
    assert bound[0].identity == bound[1].identity != bound[2].identity
    called = PythonRunner.from_callable("r", left, batch_size=None)
    assert called.limits.batch_sizes is None
    assert (called.session().run(make_batch(X)).outputs["y"] == 1).all()
    builtin = PythonRunner.from_callable("r", dict)
    assert (builtin.session().run(make_batch(X)).outputs["x"] == 1).all()


def test_a_file_that_was_changed_within_a_second_is_run_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for folder in (tmp_path, tmp_path / "package"):
        folder.mkdir(exist_ok=True)
        file = folder / "sides_of_now.py"
        for value in (1, 2):
            file.write_text(f"def side():\n    return {value}\n")
            os.utime(file, (1.8e9, 1.8e9))
            if value == 1:
                py_compile.compile(str(file))  # as another program leaves it
            found = find_function("cand", "runners.cand.call", "sides_of_now:side", folder)
            assert found.function() == value
