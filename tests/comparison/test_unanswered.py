"""Samples without an answer are told with their rules and reasons, however many batches failed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from paritygate.api.plans import load_plan
from paritygate.comparison.rows import Failure, KeepHint, SampleRows, Side, StageResult
from paritygate.comparison.stage import StageComparer
from paritygate.core.verdict import rule_names
from paritygate.tally.stage import Hits

RULES = ("runner.error", "runner.crashed", "runner.timeout", "runner.disagreement")


class Counted(list[Failure]):
    """Failures that count how often somebody goes through all of them."""

    times = 0

    def __iter__(self) -> Iterator[Failure]:
        self.times += 1
        return super().__iter__()


def side(seed: int, count: int) -> Side:
    rng = np.random.default_rng(seed)
    answered, failures, at = np.ones(count, bool), Counted(), 0
    while at < count:
        size = min(int(rng.integers(1, 4)), count - at)
        if rng.random() < 0.7:
            rows = np.arange(at, at + size)
            answered[rows] = False
            failures.append(Failure(rows, str(rng.choice(RULES)), f"side {seed}, batch at {at}"))
        at += size
    return Side({"y": np.zeros((count, 2), np.float32)}, answered, np.zeros(count, bool), failures)


def judge(ref: Side, cand: Side) -> StageResult:
    count = len(ref.answered)
    plan = load_plan(
        {
            "golden": "g.arrow",
            "runners": {"a": "recorded", "b": "b.arrow"},
            "stages": [
                {
                    "reference": "a",
                    "candidate": "b",
                    "outputs": {"y": {"atol": 0.0, "rtol": 0.0}},
                }
            ],
        }
    )
    ids = np.arange(count) * 3
    samples = SampleRows(0, range(count), ids, {}, {}, Hits())
    (stage,) = plan.stages
    return StageComparer(plan, stage, "full").compare(samples, ref, cand, KeepHint(count))


@pytest.mark.parametrize("seed", range(4))
def test_every_sample_is_told_with_what_its_batch_raised(seed: int) -> None:
    ref, cand = side(2 * seed, 60), side(2 * seed + 1, 60)
    result = judge(ref, cand)
    wanted: dict[int, tuple[set[str], str]] = {}
    for i in range(60):
        rules, texts = set(), []
        for own, other in ((ref, cand), (cand, ref)):
            for failure in list.__iter__(own.failures):  # type: ignore[arg-type]
                if i in failure.rows.tolist():
                    both = failure.rule == "runner.disagreement" and not other.answered[i]
                    rules.add("runner.error" if both else failure.rule)
                    texts.append(failure.text)
        if rules:
            wanted[i] = rules, "; ".join(texts)
    assert len(wanted) > 20
    bits = result.failed.rules.tolist()
    found = {
        i: (set(rule_names(bits[at])), result.rows[i].values["error"])
        for at, i in enumerate(result.failed.ordinals.tolist())
    }
    assert found == wanted


def test_all_failures_are_gone_through_as_often_however_many_samples_fail() -> None:
    times = []
    for count in (30, 300):
        ref, cand = side(1, count), side(2, count)
        judge(ref, cand)
        times.append((ref.failures.times, cand.failures.times))  # type: ignore[attr-defined]
    assert times[0] == times[1]
