"""One stage of a report: samples, outputs, decisions, slices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from paritygate_frontends.report.figures import ABSENT, bound, clean, number, share
from paritygate_frontends.report.runtime import render_differences

MAX_CHANGES = 12
MAX_SLICES = 20
COLOURS = {"release": "bold green", "hold": "bold red", "incomplete": "bold yellow"}
Figures = Mapping[str, Any]


def render_stage(stage: Figures) -> Iterator[RenderableType]:
    """Lay out one stage of a summary."""
    verdict = str(stage["verdict"])
    yield Text.assemble(
        ("Stage ", "bold"),
        (clean(stage["name"]), "bold"),
        f": {clean(stage['candidate'])} (candidate) against {clean(stage['reference'])} "
        "(reference): ",
        (clean(verdict), COLOURS.get(verdict, "bold")),
    )
    yield from (_in(Text(line, style="dim")) for line in render_differences(stage))
    yield _in(Text(_samples(stage)))
    outputs, decisions = stage.get("outputs") or {}, stage.get("decisions") or {}
    if outputs:
        yield _in(_output_table(outputs))
        yield from (_in(Text(line, style="dim")) for line in _output_notes(outputs))
    if decisions:
        yield _in(_decision_table(decisions))
        yield from (_in(Text(line, style="dim")) for line in _decision_notes(decisions))
        if any(d["flips"] for d in decisions.values()):
            yield from _changes(decisions)
    yield from _slices(stage.get("slices") or {})


def _in(part: RenderableType) -> Padding:
    return Padding(part, (0, 0, 0, 2), expand=False)


def _table(*columns: str, text_columns: int = 1) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for at, column in enumerate(columns):
        table.add_column(column, justify="left" if at < text_columns else "right")
    return table


_WORDS = {
    "as_expected": "rejected as the pack expects",
    "not_rejected": "not rejected though the pack expects it",
}


def _samples(stage: Figures) -> str:
    if stage.get("ran") is False:
        return "not run"
    counts = dict(stage["samples"])
    compared, expected = counts.pop("compared"), counts.pop("expected")
    text = f"{compared:,} of {expected:,} samples compared"
    if compared and not stage.get("outputs"):
        text = f"no output compared: {compared:,} of {expected:,} samples answered by both sides"
    rest = {name: count for name, count in counts.items() if count}
    failed = rest.pop("failed", 0)
    text += f", {failed:,} failed" if failed else ", none failed"
    return text + "".join(f", {count:,} {_WORDS.get(name, name)}" for name, count in rest.items())


def _output_table(outputs: Mapping[str, Figures]) -> Table:
    table = _table("output", "elements", "failing", "max error", "of allowed", "mean error", "rmse")
    for name, figures in outputs.items():
        failing = figures.get("failing_elements")
        table.add_row(
            clean(name),
            number(figures.get("elements")),
            Text(number(failing), style="red" if failing else ""),
            number(_value(figures.get("max_abs_error"))),
            _times(_value(figures.get("max_excess"))),
            number(figures.get("mean_error")),
            number(figures.get("rmse")),
        )
    return table


def _value(located: object) -> object:
    return located.get("value") if isinstance(located, Mapping) else located


def _times(excess: object) -> str:
    return ABSENT if excess is None else f"{number(excess)} x"


def _output_notes(outputs: Mapping[str, Figures]) -> Iterator[str]:
    for name, figures in outputs.items():
        error, excess = figures.get("max_abs_error"), figures.get("max_excess")
        if isinstance(error, Mapping) and error.get("value"):
            if isinstance(excess, Mapping) and _place(excess) == _place(error):
                yield f"{clean(name)}: largest error and excess at {_place(error)}"
            else:
                yield f"{clean(name)}: largest error at {_place(error)}"
                if isinstance(excess, Mapping) and excess.get("value"):
                    yield f"{clean(name)}: largest excess at {_place(excess)}"
        nonfinite = figures.get("nonfinite") or {}
        if nonfinite.get("ref") or nonfinite.get("cand"):
            yield (
                f"{clean(name)}: NaN or infinite elements: {nonfinite.get('ref', 0):,} in the "
                f"reference, {nonfinite.get('cand', 0):,} in the candidate, "
                f"{nonfinite.get('agreeing', 0):,} of them alike"
            )
        if figures.get("ref_beyond_cand_range"):
            yield (
                f"{clean(name)}: {figures['ref_beyond_cand_range']:,} finite reference elements "
                "are beyond the range of the candidate's dtype"
            )
        yield from _saturated(name, figures.get("saturated"))
        if figures.get("empty_samples"):
            yield f"{clean(name)}: {figures['empty_samples']:,} samples without an element"
        if isinstance(first := figures.get("first_difference"), Mapping):
            ref, cand = clean(repr(first["ref"])), clean(repr(first["cand"]))
            yield f"{clean(name)}: first difference at {_where(first)}: {ref} -> {cand}"


def _saturated(name: str, found: object) -> Iterator[str]:
    """More elements at the limits of the dtype than the reference has: values are cut off."""
    if not isinstance(found, Mapping):
        return
    ref, cand = (sum(found[side].values()) for side in ("ref", "cand"))
    if cand > ref:
        yield (
            f"{clean(name)}: elements at the limits of their dtype: {ref:,} in the reference, "
            f"{cand:,} in the candidate, whose scale may be too small"
        )


def _place(located: Figures) -> str:
    values = f"{number(located.get('ref'), 9)} -> {number(located.get('cand'), 9)}"
    return f"{_where(located)}: {values}"


def _where(located: Figures) -> str:
    where = f"id {clean(located['id'])}" if "id" in located else f"row {located.get('ordinal')}"
    if located.get("index", -1) >= 0:
        where += f", element {located['index']}"
    return where


def _decision_table(decisions: Mapping[str, Figures]) -> Table:
    table = _table("decision", "flips", "allowed", "agreement", "flip rate up to", "at risk")
    for name, figures in decisions.items():
        flips, samples = figures["flips"], figures.get("samples", 0)
        table.add_row(
            clean(name),
            Text(f"{flips:,} of {samples:,}", style="red" if flips else ""),
            number(figures.get("budget")),
            share(samples - flips, samples),
            bound(figures.get("flip_rate_upper_95")),
            number(figures.get("at_risk")),
        )
    return table


def _decision_notes(decisions: Mapping[str, Figures]) -> Iterator[str]:
    for name, figures in decisions.items():
        if "flipped_positions" in figures:
            yield (
                f"{clean(name)}: {figures['flipped_positions']:,} of {figures['positions']:,} "
                "places flip; a sample flips with any of them"
            )
        if figures.get("transform"):
            yield f"{clean(name)}: decided after {clean(figures['transform'])}, as the plan says"
        if figures.get("labels"):
            yield f"{clean(name)}: {_correctness(figures['labels'])}"
        undefined = figures.get("undefined") or {}
        if undefined.get("ref") or undefined.get("cand"):
            yield (
                f"{clean(name)}: undefined for {undefined.get('ref', 0):,} samples of the "
                f"reference, {undefined.get('cand', 0):,} of the candidate"
            )
        if figures.get("depends_on_compare_as"):
            yield (
                f"{clean(name)}: {figures['depends_on_compare_as']:,} samples are decided "
                "otherwise under the other compare_as"
            )


def _correctness(labels: Figures) -> str:
    unknown = labels.get("unknown", 0)
    if not labels["labelled"]:
        return f"none of {unknown:,} labels is a name or an index of this decision"
    text = (
        f"right by label {labels['correct_ref']:,} -> {labels['correct_cand']:,} of "
        f"{labels['labelled']:,}; {labels['changed_to_wrong']:,} changed to wrong, "
        f"{labels['changed_to_right']:,} to right"
    )
    return f"{text}; {unknown:,} unknown labels" if unknown else text


def _changes(decisions: Mapping[str, Figures]) -> Iterator[RenderableType]:
    table = _table("flips of", "reference", "candidate", "times", text_columns=3)
    left = 0
    for name, figures in decisions.items():
        changes = _list_changes(figures)
        left += sum(n for _, _, n in changes[MAX_CHANGES:])
        for ref, cand, n in changes[:MAX_CHANGES]:
            table.add_row(clean(name), clean(ref), clean(cand), number(n))
    yield _in(table)
    if left:
        yield _in(Text(f"and {left:,} flips of rarer kinds (summary.json)", style="dim"))


def _list_changes(figures: Figures) -> list[tuple[str, str, int]]:
    """Flips by kind, most frequent first; undefined on both sides may be a flip too."""
    changes = [
        (ref, cand, n)
        for ref, row in (figures.get("matrix") or {}).items()
        for cand, n in row.items()
        if ref != cand
    ]
    both_undefined = figures["flips"] - sum(n for _, _, n in changes)
    is_counted = figures.get("kind", "bands") in ("bands", "argmax")
    if is_counted and "positions" not in figures and both_undefined > 0:
        changes.append(("undefined", "undefined", both_undefined))
    return sorted(changes, key=lambda change: (-change[2], change[:2]))


def _slices(slices: Mapping[str, Mapping[str, Figures]]) -> Iterator[RenderableType]:
    rows = [
        (name, value, counts)
        for name, values in slices.items()
        for value, counts in values.items()
        if counts["failed"]
    ]
    if not rows:
        return
    rows.sort(key=lambda row: -row[2]["failed"])
    decisions = list(dict.fromkeys(d for _, _, counts in rows for d in counts.get("flips", {})))
    table = _table(
        "slice",
        "value",
        "samples",
        "failed",
        *(f"flips of {clean(d)}" for d in decisions),
        text_columns=2,
    )
    for name, value, counts in rows[:MAX_SLICES]:
        flips = (number(counts.get("flips", {}).get(d, 0)) for d in decisions)
        table.add_row(
            clean(name), clean(value), number(counts["samples"]), number(counts["failed"]), *flips
        )
    yield _in(table)
    if len(rows) > MAX_SLICES:
        yield _in(Text(f"and {len(rows) - MAX_SLICES:,} more values (summary.json)", style="dim"))
