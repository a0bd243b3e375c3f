"""Probes as reasons: what the contract lets through, and runners that take what they must not."""

from __future__ import annotations

from collections.abc import Iterator

from paritygate.core.probes import ProbeResult, Probes
from paritygate.core.tables import ProbesTable
from paritygate.core.verdict import Reason
from paritygate.judge.facts import RunFacts


def judge_probes(facts: RunFacts) -> Iterator[tuple[str | None, Reason]]:
    """Reasons, each with the runner that it is about; None: all."""
    let_through: dict[str, list[ProbeResult]] = {}
    for result in facts.probes.results:
        if result.contract.outcome != "refused":
            let_through.setdefault(result.probe, []).append(result)
    for probe, results in let_through.items():
        yield (
            None,
            Reason(
                "contract.probe",
                f"probe {probe}: {results[0].what}: {results[0].contract.text}"
                + (f" (and {len(results) - 1} more)" if len(results) > 1 else ""),
                count=len(results),
                next="say dtype and shape of every input in [inputs], and what bounds the batch in "
                "[dims]; a gate that admits it can't tell what the product would do",
            ),
        )
    table = facts.plan.table.probes
    if table is not None:
        yield from _of_runners(facts.probes, table)


def _of_runners(probes: Probes, table: ProbesTable) -> Iterator[tuple[str, Reason]]:
    for result in probes.results:
        for runner, tried in result.runners.items():
            if result.probe not in table.refuse or tried.outcome == "refused":
                continue
            text = (
                f"runner {runner!r}, probe {result.probe}: {result.what}: "
                f"{_WORDS[tried.outcome]}, where the plan expects a refusal: {tried.text}"
            )
            advice = (
                "export the model so that it checks its inputs, or take the probe out of "
                "probes.refuse: then it is told only"
            )
            yield runner, Reason("runner.probe", text, next=advice)


def list_probes(facts: RunFacts) -> Iterator[str]:
    """Sentences on probes that were not made, and on runners that took one or ended."""
    for what, why in facts.probes.left_out.items():
        yield f"probes: {what}: not tried; {why}"
    table = facts.plan.table.probes
    for result in facts.probes.results:
        for runner, tried in result.runners.items():
            if tried.outcome != "refused" and (table is None or result.probe not in table.refuse):
                yield f"probes: {result.what}: {runner} {_WORDS[tried.outcome]}: {tried.text}"


_WORDS = {
    "refused": "refused it",
    "accepted": "took it",
    "crashed": "crashed",
    "late": "never answered",
    "not_tried": "was not tried",
}
