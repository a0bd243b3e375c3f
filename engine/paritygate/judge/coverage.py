"""What the plan demands of the golden samples and they don't exercise, as reasons."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from paritygate.core.bands import Bands
from paritygate.core.coverage import DecisionCoverage, classes_of, dims_of
from paritygate.core.policy import DecisionRule
from paritygate.core.verdict import Reason
from paritygate.judge.facts import RunFacts, StageFacts
from paritygate.tally.coverage import InputCover, Number, Span, reference_counts
from paritygate.tally.decision import DecisionTally
from paritygate.tally.pairs import shorten
from paritygate.tally.records import EdgeSides

CODE = "evidence.uncovered"
SHOWN = 5
_NEXT = "add golden samples that do; `paritygate pack boundary PLAN -o PACK` makes some"


class EdgeSide(Struct, frozen=True):
    """Reference scores on one side of an edge, those on the edge among them that fall there.

    Attributes:
        name: "below" or "above".
        band: the band there.
        samples: how many.
        nearest: distance of the nearest one; None where there is none.
    """

    name: str
    band: str
    samples: int
    nearest: float | None


def sides_of(bands: Bands, k: int, found: EdgeSides) -> tuple[EdgeSide, EdgeSide]:
    """What lies on either side of an edge, as the rule decides it."""
    tie_up = bands.tie_up[k]
    below, above = found.below, found.above
    below_at, above_at = found.nearest_below, found.nearest_above
    if found.on and tie_up:
        above, above_at = above + found.on, 0.0
    elif found.on:
        below, below_at = below + found.on, 0.0
    return (
        EdgeSide("below", bands.names[k], below, below_at),
        EdgeSide("above", bands.names[k + 1], above, above_at),
    )


def class_counts(
    rule: DecisionRule, tally: DecisionTally, names: Sequence[str]
) -> dict[str, int] | None:
    """How often the reference decided each class; None where the classes aren't known."""
    counts = reference_counts(tally)
    if rule.argmax or rule.topk is not None:
        return {name: counts.get(code, 0) for code, name in enumerate(names)}
    known = classes_of(rule) if rule.equal else None
    if known is None:
        return None
    return {name: counts.get(shorten(name), 0) for name in known}


def judge_coverage(facts: RunFacts) -> Iterator[Reason]:
    """A reason for each demand of `[require_coverage]` that isn't met."""
    wanted = facts.plan.table.require_coverage
    if wanted is None or facts.asked < facts.samples:
        return
    rules = {rule.name: rule for rule in facts.plan.decisions}
    for stage in facts.stages:
        for name, demand in wanted.decisions.items():
            if stage.tally is not None and stage.stage.decides(rules[name].output):
                yield from _of_decision(stage, rules[name], demand)
    if not any(stage.tally is not None for stage in facts.stages):
        return
    if wanted.batch_sizes:
        yield from _batch_sizes(facts)
    if wanted.dims:
        yield from _dims(facts)
    if wanted.ranges:
        yield from _ranges(facts)
    if wanted.zeros:
        yield from _zeros(facts)
    if wanted.constant_channels:
        yield from _constant(facts)


def list_not_demanded(facts: RunFacts) -> Iterator[str]:
    """A sentence where demands were left unjudged, since a part of the pack ran."""
    if facts.plan.table.require_coverage is not None and facts.asked < facts.samples:
        yield "coverage: what the plan demands is of the whole pack, of which a part was run"


def _of_decision(
    stage: StageFacts, rule: DecisionRule, demand: DecisionCoverage
) -> Iterator[Reason]:
    def uncovered(text: str, advice: str = _NEXT) -> Reason:
        said = f"decision {rule.name!r}: {text}"
        return Reason(CODE, said, stage=stage.stage.name, decision=rule.name, next=advice)

    tally = stage.tally.decisions.get(rule.name) if stage.tally is not None else None
    if tally is None:
        yield uncovered("nothing was decided, so nothing of what is demanded was exercised")
        return
    if rule.bands is not None:
        for text in _edges(rule.bands, tally.edges, demand):
            yield uncovered(text)
    ranks = rule.argmax or rule.topk is not None
    if ranks and demand.ties is not None and tally.tied_ref < demand.ties:
        yield uncovered(
            f"a tie decides about the first places of {_many(tally.tied_ref, 'sample')} of the "
            f"reference, at least {demand.ties} are demanded (ties)"
        )
    if demand.each_class is not None:
        names = stage.decision_names.get(rule.name, ())
        yield from map(uncovered, _classes(rule, tally, names, demand.each_class))
    seen = len(reference_counts(tally))
    if demand.values is not None and seen < demand.values:
        yield uncovered(
            f"the reference decided {_many(seen, 'different value')}, at least {demand.values} "
            "are demanded (values)"
        )


def _edges(bands: Bands, edges: Sequence[EdgeSides], demand: DecisionCoverage) -> Iterator[str]:
    for k, found in enumerate(edges):
        where = f"edge {bands.edges[k]!r}"
        for side in sides_of(bands, k, found):
            if demand.each_side is not None and side.samples < demand.each_side:
                yield (
                    f"{_many(side.samples, 'score')} of the reference on the side {side.name} "
                    f"{where} ({side.band}), at least {demand.each_side} are demanded (each_side)"
                )
            if demand.within is not None and (
                side.nearest is None or not side.nearest <= demand.within
            ):
                told = "none" if side.nearest is None else f"the nearest {side.nearest:.6g} away"
                yield (
                    f"no score of the reference within {demand.within:g} on the side {side.name} "
                    f"{where} ({side.band}; {told}), one is demanded (within)"
                )
        if demand.ties is not None and found.on < demand.ties:
            yield (
                f"{_many(found.on, 'score')} of the reference exactly on {where}, at least "
                f"{demand.ties} are demanded (ties)"
            )


def _classes(
    rule: DecisionRule, tally: DecisionTally, names: Sequence[str], least: int
) -> Iterator[str]:
    counts = class_counts(rule, tally, names) or {}
    rare = sorted((n, at, name) for at, (name, n) in enumerate(counts.items()) if n < least)
    if not rare:
        return
    told = ", ".join(f"{name} {n}x" for n, _, name in rare[:SHOWN])
    more = f" and {len(rare) - SHOWN} more" if len(rare) > SHOWN else ""
    left = f"; {tally.other_pairs} decisions aren't listed by value" if tally.other_pairs else ""
    yield (
        f"{len(rare)} of {len(counts)} classes were decided fewer than {least} times by the "
        f"reference (each_class): {told}{more}{left}"
    )


def _batch_sizes(facts: RunFacts) -> Iterator[Reason]:
    dim = facts.plan.table.dims.batch
    if dim is None:
        return
    approved = dim.sizes or [int(dim.min or 1), int(dim.max or 1)]
    found = False
    for name, check in facts.consistency.runners.items():
        if check.size is None:
            continue
        found = True
        ran = {rows for runner, rows in facts.coverage.batches if runner == name}
        ran |= {size for size, _ in check.outputs}
        missing = [size for size in sorted(set(approved)) if size not in ran]
        if missing:
            why = f"; at other sizes it was not run: {check.why_not}" if check.why_not else ""
            yield Reason(
                CODE,
                f"runner {name!r} ran no batch of {_joined(missing)} samples, which [dims] batch "
                f"approves (batch_sizes); it ran batches of {_joined(sorted(ran)) or 'none'}{why}",
                next="let check_samples of [dims] batch be more than 0, or add golden samples",
            )
    if not found:
        text = "no runner ran in batches, so no approved batch size was exercised (batch_sizes)"
        yield Reason(CODE, text, next="run the models themselves, not recordings of them")


def _dims(facts: RunFacts) -> Iterator[Reason]:
    bounds = facts.plan.table.dims.bounds()
    for name in dims_of(facts.plan.table.inputs):
        seen = facts.coverage.dims.get(name)
        low, high = bounds[name]
        if seen is not None and (seen.low, seen.high) == (low, high):
            continue
        missing = {
            f"smallest size {low}": seen is None or seen.low != low,
            f"largest size {high}": seen is None or seen.high != high,
        }
        what = " and its ".join(text for text, is_missing in missing.items() if is_missing)
        told = "no size was" if seen is None else f"{seen.low} to {seen.high} were"
        yield Reason(
            CODE,
            f"dim {name!r}: no sample has its {what}, which [dims] approves (dims); {told} seen",
            next=_NEXT,
        )


def _ranges(facts: RunFacts) -> Iterator[Reason]:
    for name, ends in facts.ranges.items():
        reached = reached_ends(ends, facts.coverage.inputs.get(name))
        for at, word in enumerate(("minimum", "maximum")):
            missing = [c for c, both in enumerate(reached) if not both[at]]
            if not missing:
                continue
            channels = channel_names(facts, name)
            if len(ends) == 1:
                text = f"no sample reaches the {word} {ends[0][at]:.9g} of its range (ranges)"
            else:
                told = ", ".join(
                    f"{channels.get(c, c)} ({ends[c][at]:.9g})" for c in missing[:SHOWN]
                )
                more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
                text = (
                    f"no sample reaches the {word} of the range of {len(missing)} of "
                    f"{len(ends)} channels (ranges): {told}{more}"
                )
            yield Reason(CODE, f"input {name!r}: {text}", next=_NEXT)


def reached_ends(
    ends: Sequence[tuple[Number, Number]], seen: InputCover | None
) -> list[tuple[bool, bool]]:
    """Whether some sample has the minimum, and the maximum, of each pair of a range."""
    if seen is None:
        return [(False, False)] * len(ends)
    spans: list[Span | None] = list(seen.channels)
    if len(ends) == 1 < len(spans):
        known = [span for span in spans if span is not None]
        low, high = (
            min((s.low for s in known), default=None),
            max((s.high for s in known), default=None),
        )
        spans = [None if low is None or high is None else Span(low, high)]
    return [
        (False, False) if span is None else (span.low <= low, span.high >= high)
        for (low, high), span in zip(ends, spans, strict=True)
    ]


def _zeros(facts: RunFacts) -> Iterator[Reason]:
    for name, seen in facts.coverage.inputs.items():
        allowed = all(low <= 0 <= high for low, high in facts.ranges.get(name, ()))
        if allowed and not seen.zeros:
            text = f"input {name!r}: all elements are zero in no sample (zeros)"
            yield Reason(CODE, text, next=_NEXT)


def _constant(facts: RunFacts) -> Iterator[Reason]:
    for name, seen in facts.coverage.inputs.items():
        missing = [c for c, n in enumerate(seen.constant) if not n] if seen.several else []
        if not missing:
            continue
        names = channel_names(facts, name)
        if len(seen.constant) == 1:
            text = "all elements are the same in no sample (constant_channels)"
        else:
            told = ", ".join(str(names.get(c, c)) for c in missing[:SHOWN])
            more = f" and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
            text = f"no sample holds these channels constant (constant_channels): {told}{more}"
        yield Reason(CODE, f"input {name!r}: {text}", next=_NEXT)


def channel_names(facts: RunFacts, name: str) -> Mapping[int, str]:
    """Names of an input's channels, where the plan gives them."""
    table = facts.plan.table.inputs.get(name)
    return dict(enumerate(table.channels or ())) if table is not None else {}


def _joined(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _many(count: int, noun: str) -> str:
    return f"{count or 'no'} {noun}{'' if count == 1 else 's'}"
