"""Each wrong line of a kernel of the GPU is noticed by inputs that a simulated device counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.gpu.mutants.decisions import DECISIONS
from tests.gpu.mutants.elements import ELEMENTS
from tests.gpu.mutants.sent import SENT

import paritygate

ROOT = Path(__file__).resolve().parents[3]
PACKAGE = Path(paritygate.__file__).parent
MUTANTS = (*ELEMENTS, *DECISIONS, *SENT)


@pytest.mark.slow
def test_every_mutant_is_noticed() -> None:
    texts = {mutant.file: (PACKAGE / mutant.file).read_text("utf-8") for mutant in MUTANTS}
    jobs = [
        (
            f"paritygate.{mutant.file.removesuffix('.py').replace('/', '.')}",
            mutant.applied(texts[mutant.file]),
            mutant.tests.split(),
        )
        for mutant in MUTANTS
    ]
    assert len({text for _, text, _ in jobs}) == len(jobs)
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.mutants.child"],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(PACKAGE.parent), str(ROOT)))},
        input=json.dumps(jobs),
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    unchanged, *found = json.loads(done.stdout)
    assert not unchanged, "kernels as they are differ from the CPU"
    assert not [
        f"{mutant.file}: {mutant.why}: {mutant.old!r} -> {mutant.new!r}"
        for mutant, noticed in zip(MUTANTS, found, strict=True)
        if not noticed
    ]
