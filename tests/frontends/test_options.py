from __future__ import annotations

import pytest

from paritygate.core.errors import PlanError
from paritygate_frontends.cli.options import read_tolerances


def problems(*texts: str, atol: float | None = None, rtol: float | None = None) -> list[str]:
    with pytest.raises(PlanError) as caught:
        read_tolerances(atol, rtol, texts)
    return [str(p) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "name", "values"),
    [
        ("score:atol=1e-3,rtol=0", "score", {"atol": 1e-3, "rtol": 0.0}),
        (" score : rtol = 1e-3 , atol = 2 ", "score", {"atol": 2.0, "rtol": 1e-3}),
        ("y:atol=0,rtol=0,nonfinite=match", "y", {"atol": 0.0, "rtol": 0.0, "nonfinite": "match"}),
        ("y:nonfinite=fail", "y", {"nonfinite": "fail"}),
        ("serving:0:atol=1,rtol=0.5", "serving:0", {"atol": 1.0, "rtol": 0.5}),
    ],
)
def test_reads(text: str, name: str, values: dict[str, object]) -> None:
    assert read_tolerances(None, None, [text]) == {name: values}


def test_reads_several_and_the_common_one() -> None:
    found = read_tolerances(1e-3, 0.0, ["a:atol=1,rtol=0", "b:atol=2,rtol=0"])
    assert found == {"a": {"atol": 1.0, "rtol": 0.0}, "b": {"atol": 2.0, "rtol": 0.0}}
    assert read_tolerances(None, None, []) == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "names no output"),
        ("score", "names no output"),
        (":atol=1,rtol=0", "names no output"),
        ("atol=1,rtol=0", "names no output"),
        ("score:", "'' isn't key=value"),
        ("score:atol", "'atol' isn't key=value"),
        ("score:atol=,rtol=0", "'atol=' isn't key=value"),
        ("score:=1,rtol=0", "'=1' isn't key=value"),
        ("score:atol=1,rtol=0,", "'' isn't key=value"),
        ("score:atol=1,rtoll=0", "did you mean 'rtol'?"),
        ("score:tolerance_absolute=1", "known: atol, rtol, nonfinite, candidate_dtype"),
        ("score:atol=1,atol=2,rtol=0", "atol is given twice"),
        ("score:atol=small,rtol=0", "atol is 'small', not a number"),
        ("score:atol=nan,rtol=0", "atol is nan, not a finite number"),
        ("score:atol=inf,rtol=0", "atol is inf, not a finite number"),
        ("score:atol=-1,rtol=0", "atol is -1.0, not a finite number from 0 up"),
        ("score:atol=0,rtol=1", "rtol is 1.0, not below 1"),
        ("score:atol=0,rtol=0,nonfinite=ignore", "nonfinite is 'ignore', not 'fail' or 'match'"),
        ("score:atol=1", "rtol is missing"),
        ("score:rtol=0.1", "atol is missing"),
    ],
)
def test_refuses(text: str, says: str) -> None:
    found = problems(text)
    assert len(found) == 1
    assert says in found[0]
    assert repr(text) in found[0]


def test_refuses_two_tolerances_for_one_output() -> None:
    assert "already has a tolerance" in problems("y:atol=1,rtol=0", "y:atol=1,rtol=0")[0]


@pytest.mark.parametrize(
    ("atol", "rtol", "says"),
    [
        (1.0, None, "--rtol: atol and rtol belong together"),
        (None, 0.1, "--atol: atol and rtol belong together"),
        (-1.0, 0.0, "--atol: atol is -1.0"),
        (float("nan"), 0.0, "--atol: atol is nan"),
        (0.0, 1.0, "--rtol: rtol is 1.0, not below 1"),
    ],
)
def test_refuses_a_common_tolerance(atol: float | None, rtol: float | None, says: str) -> None:
    found = problems(atol=atol, rtol=rtol)
    assert len(found) == 1
    assert says in found[0]


def test_names_every_problem_at_once() -> None:
    found = problems("x", "s:atol=1,rtoll=q,nonfinite=no", atol=-1.0)
    assert len(found) == 5
