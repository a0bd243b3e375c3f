"""Kinds of other distributions: really built and installed, used through plan and command."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.command import environment, execute, invoke
from tests.packs import write_pack
from tests.runners.contract import context_of, spec_of

import paritygate
from paritygate.core.errors import PlanError, RunnerError, RunnerLoadError
from paritygate.runners import plugins
from paritygate.runners.registry import KINDS, parse_runner, prepare
from paritygate.testing import make_batch, sample_inputs

DOC = (Path(__file__).parents[2] / "docs" / "runners.md").read_text(encoding="utf-8")


def block(after: str, language: str) -> str:
    return DOC.partition(after)[2].partition(f"```{language}\n")[2].partition("```")[0]


FILES = {
    "pyproject.toml": block("in three files", "toml"),
    "affine_runner.py": block("`affine_runner.py`:", "python"),
    "test_affine_runner.py": block("`test_affine_runner.py`", "python"),
}


class Site:
    """A folder of installed distributions, made without a build."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self, distribution: str, version: str, points: dict[str, str], files: dict[str, str]
    ) -> None:
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        head = f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
        (info / "METADATA").write_text(head)
        lines = [f"{kind} = {value}" for kind, value in points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[paritygate.runners]", *lines]) + "\n")
        for name, text in files.items():
            (self.folder / name).write_text(text)
        # What was listed of the folder before, within the same tick of its time stamp, is kept.
        importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    before = set(sys.modules)
    yield Site(folder)
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(folder) in str(
            sys.modules[name].__file__
        ):
            del sys.modules[name]
    importlib.invalidate_caches()


def affine(site: Site, version: str = "1.2.0") -> None:
    name = "affine_runner.py"
    site.add("affine-runner", version, {"affine": "affine_runner"}, {name: FILES[name]})


def plan_of(folder: Path, **runners: object) -> dict[str, object]:
    write_pack(folder / "golden.arrow", np.arange(40), sample_inputs())
    (folder / "two.json").write_text('{"scale": 2.0, "offset": 0.5}')
    (folder / "side.py").write_text(
        "def f(inputs):\n    return {'y': 2 * inputs['x'] + inputs['x'].dtype.type(0.5)}\n"
    )
    return {
        "golden": str(folder / "golden.arrow"),
        "runners": {
            "ref": {"call": "side:f", "folder": str(folder)},
            "cand": {"kind": "affine", "model": str(folder / "two.json")},
            **runners,
        },
        "stages": [
            {
                "reference": "ref",
                "candidate": "cand",
                "outputs": {"y": {"atol": 0.0, "rtol": 0.0}},
            }
        ],
    }


def test_a_plan_uses_it(site: Site, tmp_path: Path) -> None:
    affine(site)
    plan = plan_of(tmp_path)
    result = paritygate.run(plan, out=tmp_path / "runs")
    assert result.verdict == "release", result.explain()
    facts = result.summary["runners"]["cand"]
    assert facts["kind"] == "affine"
    assert facts["plugin"] == {"distribution": "affine-runner", "version": "1.2.0"}
    assert facts["batch_size"] is None
    assert result.folder is not None
    again = paritygate.run(paritygate.load_plan(result.folder / "plan.toml"), out=None)
    assert again.verdict == "release"
    plan["runners"]["cand"]["outputs"] = {"y": {"select": 0}}  # type: ignore[index]
    plan["runners"]["ref"]["outputs"] = {"y": {"select": 0}}  # type: ignore[index]
    assert paritygate.run(plan, out=None).verdict == "release"


def test_nothing_is_loaded_before_a_plan_names_it(site: Site, tmp_path: Path) -> None:
    site.add(
        "boom", "3.1", {"boom": "boom_kind"}, {"boom_kind.py": "raise OSError('no library')\n"}
    )
    affine(site)
    assert paritygate.run(plan_of(tmp_path), out=None).verdict == "release"
    assert "boom_kind" not in sys.modules
    with pytest.raises(PlanError) as caught:
        paritygate.load_plan(plan_of(tmp_path, other={"kind": "boom"}))
    assert str(caught.value.problems[0]) == (
        "runners.other.kind: kind 'boom' of boom 3.1 can't be imported from boom_kind: OSError: "
        "no library; mend or uninstall it"
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"odd_kind has no Options, a subclass of paritygate\.runners\.RunnerOptions"),
        ("class Options: pass\n", "has no Options"),
        (
            "from paritygate.runners import RunnerOptions\nclass Options(RunnerOptions): pass\n",
            r"has no prepare\(spec, context\)",
        ),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("import no_such_module\n", "ModuleNotFoundError"),
    ],
)
def test_what_is_no_kind_is_a_problem_of_the_plan(site: Site, text: str, says: str) -> None:
    site.add("odd", "0.9", {"odd": "odd_kind"}, {"odd_kind.py": text})
    _, problems = parse_runner("x", {"kind": "odd"}, Path())
    (problem,) = problems
    assert problem.path == "runners.x.kind"
    assert "odd 0.9" in problem.message
    assert re.search(says, problem.message)


def test_options_are_its_own(site: Site) -> None:
    affine(site)
    _, problems = parse_runner("x", {"kind": "affine", "modle": "m", "batch_size": "two"}, Path())
    assert sorted(p.path for p in problems) == [
        "runners.x.batch_size",
        "runners.x.model",
        "runners.x.modle",
    ]
    _, problems = parse_runner("x", {"kind": "afine", "model": "m"}, Path())
    assert "did you mean 'affine'" in problems[0].message


def test_it_cannot_replace_a_kind(site: Site, tmp_path: Path) -> None:
    evil = "raise AssertionError('loaded')\n"
    points = dict.fromkeys(KINDS, "evil_kind")
    site.add("evil", "6.6", points, {"evil_kind.py": evil})
    plan = plan_of(tmp_path)
    del plan["runners"]["cand"]["kind"]  # type: ignore[index]
    plan["runners"]["cand"] = {"kind": "null", "echo": {"y": "x"}}  # type: ignore[index]
    assert paritygate.run(plan, out=None).verdict == "hold"
    assert "evil_kind" not in sys.modules
    told = {kind: text for _, kind, text in plugins.describe_plugins(KINDS)}
    assert told["null"] == "evil 6.6: a kind of paritygate has this name and stays"


def test_of_two_with_one_name_neither_is_used(site: Site) -> None:
    affine(site)
    site.add("other-affine", "2.0", {"affine": "other_affine"}, {"other_affine.py": ""})
    _, problems = parse_runner("x", {"kind": "affine", "model": "m"}, Path())
    assert "affine-runner 1.2.0 and other-affine 2.0 both bring a kind 'affine'" in str(problems[0])


def test_another_version_is_another_runner(site: Site, tmp_path: Path) -> None:
    affine(site)
    (tmp_path / "m.json").write_text('{"scale": 2.0, "offset": 0.5}')
    spec = spec_of({"kind": "affine", "model": "m.json"})
    with prepare(spec, context_of(tmp_path)) as runner:
        before = runner.identity
    (info,) = site.folder.glob("*.dist-info")
    text = (info / "METADATA").read_text()
    (info / "METADATA").write_text(text.replace("1.2.0", "1.3.0"))
    info.rename(info.with_name("affine_runner-1.3.0.dist-info"))
    importlib.invalidate_caches()
    with prepare(spec, context_of(tmp_path)) as runner:
        assert runner.identity != before
        assert runner.facts["plugin"] == {"distribution": "affine-runner", "version": "1.3.0"}


FAULTY = """
from paritygate.runners import Lease, Limits, Runner, RunnerOptions, RunnerSession

class Options(RunnerOptions):
    fault: str

class Faulty(Runner):
    def session(self):
        if self.fault == "session":
            raise KeyError("session")
        return Session(self)

class Session(RunnerSession):
    def _run_impl(self, batch):
        if self.runner.fault == "exit":
            raise SystemExit(0)
        if self.runner.fault == "lease":
            return {"y": batch.inputs["x"]}
        raise KeyError("batch")

def prepare(spec, context):
    fault = spec.options.fault
    if fault == "prepare":
        raise ZeroDivisionError("prepare")
    if fault == "nothing":
        return None
    limits = Limits(None, True)
    runner = Faulty(spec.name, "x", limits=limits, inputs=None, outputs=None, identity="0" * 64)
    runner.fault = fault
    return runner
"""


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("prepare", r"kind 'faulty' of faulty 0\.1: prepare raised ZeroDivisionError: prepare"),
        ("nothing", r"kind 'faulty' of faulty 0\.1: prepare gave NoneType, which is no Runner"),
    ],
)
def test_what_prepare_does_wrong_is_told(site: Site, fault: str, says: str) -> None:
    site.add("faulty", "0.1", {"faulty": "faulty_kind"}, {"faulty_kind.py": FAULTY})
    with pytest.raises(RunnerLoadError, match=says):
        prepare(spec_of({"kind": "faulty", "fault": fault}), context_of(Path()))


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("session", "KeyError: 'session'"),
        ("exit", "SystemExit: 0"),
        ("lease", r"faulty 0\.1 gave dict, no Lease"),
        ("batch", r"batch 0 \(ids 0 to 39\): KeyError: 'batch'"),
    ],
)
def test_what_it_raises_costs_a_batch_or_is_told(
    site: Site, tmp_path: Path, fault: str, says: str
) -> None:
    site.add("faulty", "0.1", {"faulty": "faulty_kind"}, {"faulty_kind.py": FAULTY})
    with (
        prepare(spec_of({"kind": "faulty", "fault": fault}), context_of(Path())) as runner,
        pytest.raises(RunnerError, match=says),
    ):
        runner.session().run(make_batch(sample_inputs()))
    if fault == "batch":
        plan = plan_of(tmp_path, cand={"kind": "faulty", "fault": fault})
        result = paritygate.run(plan, out=None)
        assert [r.code for r in result.reasons] == ["runner.disagreement", "evidence.empty"]


def test_doctor_lists_them(site: Site) -> None:
    affine(site)
    site.add("boom", "3.1", {"boom": "boom_kind"}, {"boom_kind.py": "raise OSError('gone')\n"})
    lines = {name: (status, text) for status, name, text in paritygate.doctor()}
    assert lines["runner kind affine"] == ("ok", "affine-runner 1.2.0")
    status, text = lines["runner kind boom"]
    assert status == "note"
    assert "boom 3.1" in text
    assert invoke("doctor").exit_code == 0


@pytest.mark.slow
def test_a_distribution_built_and_installed_is_used_by_the_command(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for name, text in FILES.items():
        (source / name).write_text(text)
    tables = '\n[tool.hatch.build.targets.wheel]\ninclude = ["affine_runner.py"]\n'
    with (source / "pyproject.toml").open("a") as file:
        file.write(tables)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--no-index", "--target", str(target), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    path = ":".join([str(target), *filter(None, [environment().get("PYTHONPATH")])])
    own = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_affine_runner.py"],
        cwd=source,
        env=environment(PYTHONPATH=path),
        capture_output=True,
        text=True,
        check=False,
    )
    assert re.search(r"\b15 passed", own.stdout), own.stdout
    plan = plan_of(tmp_path)
    (tmp_path / "plan.toml").write_text(paritygate.toml_text(plan))
    ran = execute("run", "plan.toml", "--json", cwd=tmp_path, PYTHONPATH=path)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    plugin = summary["runners"]["cand"]["plugin"]
    assert plugin == {"distribution": "affine-runner", "version": "1.2.0"}
    without = execute("run", "plan.toml", cwd=tmp_path)
    assert without.returncode == 2
    assert "'affine' isn't known" in without.stderr
    recorded = execute("record", "plan.toml", "cand", cwd=tmp_path, PYTHONPATH=path)
    assert recorded.returncode == 0, recorded.stderr
