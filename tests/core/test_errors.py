"""Errors come out of other processes as they went in."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate
from paritygate.core import errors
from paritygate.core.errors import ParityError


def kinds_of(base: type[ParityError]) -> Iterator[type[ParityError]]:
    yield base
    for kind in base.__subclasses__():
        yield from kinds_of(kind)


MADE: dict[str, ParityError] = {
    "PlanError": errors.PlanError([errors.Problem("a.b", "is wrong")], "p.toml"),
    "GoldenError": errors.GoldenError("cut", "golden.null_id"),
    "RunnerLoadError": errors.RunnerLoadError(
        "r", "didn't load", is_plan_fault=True, code="runner.other", detail="all of it"
    ),
    "Interrupted": errors.Interrupted("stopped", 15),
}


KINDS = [kind for kind in kinds_of(ParityError) if kind.__module__ == errors.__name__]


@pytest.mark.parametrize("again", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize(
    "kind", [k for k in kinds_of(ParityError) if k.__module__ == errors.__name__]
)
def test_an_error_is_made_again_as_it_was(kind, again) -> None:
    error = MADE.get(kind.__name__) or kind("it failed")
    error.add_note("in a pool")
    made = again(error)
    assert type(made) is kind
    assert (str(made), made.args, made.code) == (str(error), error.args, error.code)
    assert vars(made) == vars(error) != {}


def test_a_hold_is_told_by_another_process_with_its_run(tmp_path: Path) -> None:
    ones = np.ones((3, 2), np.float32)
    ref, cand = (
        write_pack(tmp_path / f"{by}.arrow", [1, 2, 3], outputs={"y": ones + by}) for by in (0, 1)
    )
    run = paritygate.compare(ref, cand, atol=0.0, rtol=0.0, out=None)
    with pytest.raises(paritygate.HoldError) as held:
        run.raise_for_hold()
    made = pickle.loads(pickle.dumps(held.value))
    assert str(made) == str(held.value)
    assert made.result == run
