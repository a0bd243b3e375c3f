"""What the golden samples exercised, for the summary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paritygate.core.policy import DecisionRule
from paritygate.judge.coverage import channel_names, class_counts, reached_ends, sides_of
from paritygate.judge.facts import RunFacts, StageFacts
from paritygate.tally.coverage import InputCover, Number, reference_counts
from paritygate.tally.decision import DecisionTally

LISTED = 32


def describe_coverage(facts: RunFacts) -> dict[str, Any]:
    """Decisions by stage, batch sizes by runner, dims, and the inputs that were looked at."""
    return {
        "decisions": {
            stage.stage.name: {
                rule.name: _decision(stage, rule, stage.tally.decisions[rule.name])
                for rule in facts.plan.decisions
                if rule.name in stage.tally.decisions
            }
            for stage in facts.stages
            if stage.tally is not None and stage.tally.decisions
        },
        "batch_sizes": _batch_sizes(facts),
        "dims": _dims(facts),
        "inputs": {name: _input(facts, name, t) for name, t in facts.coverage.inputs.items()},
    }


def _decision(stage: StageFacts, rule: DecisionRule, tally: DecisionTally) -> dict[str, Any]:
    if rule.bands is not None:
        return {
            "edges": [
                {
                    "edge": rule.bands.edges[k],
                    "ties": found.on,
                    **{
                        side.name: {
                            "decision": side.band,
                            "samples": side.samples,
                            "nearest": side.nearest,
                        }
                        for side in sides_of(rule.bands, k, found)
                    },
                }
                for k, found in enumerate(tally.edges)
            ]
        }
    figures: dict[str, Any] = {}
    counts = class_counts(rule, tally, stage.decision_names.get(rule.name, ()))
    if counts is not None:
        figures["classes"] = len(counts)
        figures["never"] = sum(not n for n in counts.values())
        rarest = sorted(counts.items(), key=lambda item: item[1])  # stable: by class
        figures["rarest"] = dict(rarest[:LISTED])
    if rule.argmax or rule.topk is not None:
        figures["ties"] = tally.tied_ref
    else:
        figures["values"] = len(reference_counts(tally))
        if tally.other_pairs:
            figures["decisions_not_listed"] = tally.other_pairs
    return figures


def _batch_sizes(facts: RunFacts) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    for name, check in facts.consistency.runners.items():
        ran = {
            str(rows): {"whole": batches.whole, "padded": batches.padded}
            for (runner, rows), batches in sorted(facts.coverage.batches.items())
            if runner == name
        }
        if ran:
            sizes[name] = {"ran": ran, "checked": sorted({size for size, _ in check.outputs})}
    return sizes


def _dims(facts: RunFacts) -> dict[str, Any]:
    bounds = facts.plan.table.dims.bounds()
    return {
        name: {
            "approved": list(bounds[name]),
            "seen": [seen.low, seen.high],
            "samples": [seen.at_low, seen.at_high],
        }
        for name, seen in facts.coverage.dims.items()
    }


def _input(facts: RunFacts, name: str, seen: InputCover) -> dict[str, Any]:
    names = channel_names(facts, name)
    constant: Sequence[int | None] = seen.constant if seen.several else [None] * len(seen.constant)
    channels = [
        {
            **({"channel": names.get(c, c)} if len(seen.channels) > 1 else {}),
            "seen": None if span is None else [span.low, span.high],
            "samples": None if span is None else [span.at_low, span.at_high],
            "constant": constant[c],
        }
        for c, span in enumerate(seen.channels)
    ]
    figures: dict[str, Any] = {"samples": seen.samples, "zeros": seen.zeros}
    ends = facts.ranges.get(name)
    if ends is not None:
        figures["ends"] = len(ends)
        figures |= _reached(ends, seen)
    return figures | {"channels": channels[:LISTED], "channels_in_all": len(channels)}


def _reached(ends: Sequence[tuple[Number, Number]], seen: InputCover) -> Mapping[str, int]:
    reached = reached_ends(ends, seen)
    return {
        "minima_reached": sum(low for low, _ in reached),
        "maxima_reached": sum(high for _, high in reached),
    }
