from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.frontends.command import execute, invoke

import paritygate

HEAVY = ("numba", "numpy", "onnx", "onnxruntime", "paritygate.api", "pyarrow", "pydantic", "rich")


def test_help_lists_exactly_the_verbs_that_exist() -> None:
    result = invoke("--help")
    assert result.exit_code == 0
    listed = result.stdout.partition("Commands:\n")[2].partition("\n\n")[0]
    verbs = re.findall(r"^  (\S+)", listed, re.MULTILINE)
    assert verbs == [
        "run",
        "compare",
        "check",
        "inspect",
        "record",
        "explain",
        "replay",
        "demo",
        "doctor",
        "pack",
    ]
    assert "..." not in listed
    for code in ("0 release", "1 hold", "2 could not judge", "3 incomplete", "130 interrupted"):
        assert code in " ".join(result.stdout.split())


@pytest.mark.parametrize("verb", ["run", "compare", "check", "pack", "demo", "doctor"])
def test_each_verb_has_help(verb: str) -> None:
    assert invoke(verb, "--help").exit_code == 0


@pytest.mark.parametrize("module", ["paritygate_frontends", "paritygate_frontends.cli.main"])
def test_run_as_a_module_it_is_the_command_too(module: str, tmp_path: Path) -> None:
    call = [sys.executable, "-m", module, "explain", str(tmp_path)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "UNJUDGED" in done.stdout + done.stderr


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys, contextlib\n"
        "from paritygate_frontends.cli.main import main\n"
        "sys.argv = ['paritygate', '--help']\n"
        "with contextlib.suppress(SystemExit):\n"
        "    main()\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "Commands:" in done.stdout
    assert done.stderr.strip() == "[]"


def test_version() -> None:
    result = invoke("--version")
    assert (result.exit_code, result.stdout) == (0, f"paritygate {paritygate.__version__}\n")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["rn"], "Did you mean 'run'?"),
        (["run", "--tolerence", "x"], "--tolerance"),
        (["run", "--limit", "0"], "--limit"),
        (["run", "--stats", "some"], "gate"),
        (["run", "--atol", "small"], "--atol"),
        (["run", "p.toml", "q.toml"], "q.toml"),
        (["compare", "only.arrow"], "CAND"),
        (["check"], "PLAN"),
        (["doctor", "extra"], "extra"),
    ],
)
def test_usage_errors_end_with_2_and_say_what_to_change(args: list[str], says: str) -> None:
    result = invoke(*args)
    assert result.exit_code == 2
    assert says in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", "--limit", "0", "--json"], "--limit"),
        (["run", "--json", "plan.toml", "--tolerence", "x"], "--tolerence"),
        (["run", "--json", "--stats", "some"], "gate"),
        (["compare", "--json", "only.arrow"], "CAND"),
        (["rn", "--json"], "rn"),
    ],
)
def test_usage_errors_are_json_where_it_is_asked_for(args: list[str], says: str) -> None:
    result = invoke(*args)
    summary = json.loads(result.stdout)
    assert (result.exit_code, summary["verdict"]) == (2, "unjudged")
    (reason,) = summary["reasons"]
    assert reason["code"] == "usage.invalid"
    assert says in reason["message"]
    assert says in result.stderr


def test_a_file_may_be_called_as_an_option_is() -> None:
    result = invoke("run", "--limit", "0", "--", "--json")
    assert (result.exit_code, result.stdout) == (2, "")


@pytest.mark.slow
def test_a_stream_that_knows_ascii_only_gets_escapes(tmp_path: Path) -> None:
    done = execute("check", "pl\u00e4n.toml", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert done.returncode == 2
    assert "pl\\xe4n.toml: no such file" in done.stdout
    assert "Traceback" not in done.stderr
