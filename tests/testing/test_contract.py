"""The contract suite passes what keeps it, and each of its checks fails on what breaks it."""

from __future__ import annotations

import subprocess
import sys
import unittest
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from tests.testing import broken
from tests.testing.broken import CHECKS, Contract, Double

from paritygate.core.tensors import Array
from paritygate.testing import RunnerContract

BREAKS: Mapping[str, tuple[type[Double], ...]] = {
    "test_answers": (broken.Wrong, broken.WrongDtype, broken.OneMore),
    "test_the_same_answer_every_time": (broken.Restless,),
    "test_a_lease_stays_until_it_is_released": (broken.OneBuffer,),
    "test_any_batch_size_in_any_order": (broken.FirstSizeOnly,),
    "test_sessions_at_the_same_time": (broken.NotThreadSafe,),
    "test_padding_changes_no_valid_row": (broken.MeanOfBatch,),
    "test_ids_and_inputs_stay_as_they_are": (broken.Overwrites, broken.NewIds),
    "test_spec_survives_pickling": (broken.NoIdentity, broken.OwnIdentity),
    "test_a_batch_without_the_input_is_an_error": (
        broken.AnswersAnything,
        broken.RaisesAnything,
        broken.NamesNothing,
    ),
    "test_a_session_survives_an_error": (broken.DiesOfAnError, broken.AnswersAnything),
    "test_closing_twice": (broken.CloseRaises, broken.CloseWipes),
    "test_facts_are_json": (broken.ArrayFacts, broken.NanFacts),
    "test_what_is_declared_is_what_comes": (broken.DeclaresMore, broken.DeclaresOtherDims),
    "test_another_thing_has_another_identity": (broken.OneIdentity,),
    "test_it_is_a_whole_runner": (
        broken.NullIdentity,
        broken.NoRows,
        broken.NoLimits,
        broken.FindingsRaise,
        broken.FindingsNone,
        broken.FindingsLost,
        broken.FindsItself,
    ),
}


def test_every_check_is_proved_to_fail() -> None:
    assert sorted(BREAKS) == CHECKS


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("kind", [Double, broken.FixedSize])
def test_what_keeps_the_contract_passes(kind: type[Double], check: str) -> None:
    getattr(Contract(kind), check)()


@pytest.mark.parametrize(
    ("check", "kind"), [(check, kind) for check, kinds in BREAKS.items() for kind in kinds]
)
def test_what_breaks_it_fails(check: str, kind: type[Double]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - KeyError and ValueError are theirs
        getattr(Contract(kind), check)()
    assert not isinstance(caught.value, NotImplementedError)


@pytest.mark.parametrize(("atol", "is_good"), [(0.0, False), (1e-5, True)])
def test_a_tolerance_is_by_choice(atol: float, is_good: bool) -> None:
    contract = Contract(broken.Wrong)
    contract.atol = atol
    if is_good:
        contract.test_answers()
        return
    with pytest.raises(AssertionError, match=r"output 'y', sample 0: is .*, expected"):
        contract.test_answers()


class _Echo(RunnerContract):
    def table(self, folder: Path) -> object:
        return {"kind": "null", "echo": {"y": "x"}}

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {"y": inputs["x"] + np.float32(self.off)}

    off = 0.0


class _Wrong(_Echo):
    off = 1.0


@pytest.mark.parametrize(("base", "failures"), [(_Echo, 0), (_Wrong, 7)])
def test_unittest_runs_it(base: type[_Echo], failures: int) -> None:
    case = type("Case", (base, unittest.TestCase), {"__module__": __name__})
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert result.testsRun == len(CHECKS)
    assert not result.errors
    assert len(result.failures) == failures


@pytest.mark.slow
def test_it_fails_without_assert_statements_too() -> None:
    code = (
        "from tests.testing.broken import Contract, Wrong\n"
        "try:\n    Contract(Wrong).test_answers()\n"
        "except AssertionError:\n    print('failed')\n"
    )
    done = subprocess.run(
        [sys.executable, "-O", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout == "failed\n"
