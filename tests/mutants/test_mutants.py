"""Each wrong rule is noticed by the tests of that rule; the rules as they are pass them.

The tests run against the engine with kernels as plain Python, so that nothing is compiled. What is
equivalent to the rule as it stands is no mutant and isn't listed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.mutants.decisions import DECISIONS
from tests.mutants.elements import ELEMENTS
from tests.mutants.failing import FAILING
from tests.mutants.mutant import Mutant
from tests.mutants.scalar import SCALAR
from tests.mutants.scans import SCANS

import paritygate

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(paritygate.__file__).parent
# Left out is what looks at machine code, loops over millions, or draws hundreds of examples.
PLAIN = "not fused and not compiled and not overflows_a_chunk and not oracle"
RULES = "tests/kernels/test_scalar_rules.py"
OF_ELEMENTS = (
    "test_single_elements",
    "test_nonfinite_rules",
    "test_a_nonfinite_failure_outranks_every_finite_one",
    "test_outliers_are_bounded_by_an_integer_and_never_nonfinite",
    "test_hard_cap_holds_even_within_the_tolerance",
    "test_cap_of_integers_is_not_rounded",
)
TESTS = {
    "scalar": [RULES, "tests/kernels/test_elements_scalar.py"],
    "decisions": [RULES, "tests/kernels/test_decisions.py"],
    "elements": [RULES, *(f"tests/comparison/test_elements.py::{name}" for name in OF_ELEMENTS)],
    "scans": ["tests/comparison/test_scan_edges.py", "tests/comparison/test_scan.py"],
    "failing": ["tests/comparison/test_failing_edges.py"],
}
MUTANTS = {
    "scalar": SCALAR,
    "decisions": DECISIONS,
    "elements": ELEMENTS,
    "scans": SCANS,
    "failing": FAILING,
}


@pytest.mark.slow
@pytest.mark.parametrize("rules", TESTS)
def test_every_mutant_is_noticed(rules: str, tmp_path: Path) -> None:
    mutants = MUTANTS[rules]
    file = mutants[0].file
    text = (PACKAGE / file).read_text(encoding="utf-8")
    job = {
        "module": f"paritygate.{file.removesuffix('.py').replace('/', '.')}",
        "tests": TESTS[rules],
        "plain": PLAIN,
        "mutants": [(mutant.applied(text), mutant.tests) for mutant in mutants],
    }
    unchanged, *mutated = _run(job, tmp_path)
    assert unchanged["code"] == 0, f"the rules as they are fail {unchanged['failed']}"
    survivors = [
        f"{mutant.why}: {mutant.old!r} -> {mutant.new!r}"
        for mutant, found in zip(mutants, mutated, strict=True)
        if found["code"] == 0
    ]
    assert not survivors
    assert not [m.why for m, f in zip(mutants, mutated, strict=True) if not f["failed"]]


def _run(job: dict[str, object], folder: Path) -> list[dict[str, object]]:
    path = folder / "job.json"
    path.write_text(json.dumps(job), encoding="utf-8")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("NUMBA_", "PYTEST_"))}
    paths = [str(PACKAGE.parent), str(ROOT)]
    done = subprocess.run(
        [sys.executable, "-m", "tests.mutants.child", str(path)],
        cwd=ROOT,
        env=kept
        | {
            "PYTHONPATH": os.pathsep.join(paths),
            "NUMBA_DISABLE_JIT": "1",
            "NUMBA_CACHE_DIR": str(folder),
            "OPENBLAS_NUM_THREADS": "1",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("rules", TESTS)
def test_mutants_stand_in_one_file_once(rules: str) -> None:
    mutants = MUTANTS[rules]
    (file,) = {mutant.file for mutant in mutants}
    text = (PACKAGE / file).read_text(encoding="utf-8")
    found = {mutant.applied(text) for mutant in mutants}
    assert len(found) == len(mutants)
    for changed in found:
        compile(changed, file, "exec")


def test_a_mutant_whose_text_is_gone_is_named() -> None:
    mutant = Mutant("kernels/scalar.py", "no such text", "", "nothing", "")
    with pytest.raises(ValueError, match=r"kernels/scalar.py has 0 times.*'nothing'.*no such text"):
        mutant.applied("text")
