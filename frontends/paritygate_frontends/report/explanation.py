"""What `explain` found out, laid out: the run's reasons, or one sample in each failing stage."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from paritygate_frontends.report.figures import clean, number
from paritygate_frontends.report.verdict import badge, indented

Found = Mapping[str, Any]


def render_explanation(found: Found) -> Iterator[RenderableType]:
    """Lay out what `paritygate.explain` returns."""
    if "status" in found:
        yield Text.assemble((clean(found["says"]), "bold"))
        yield Text(f"run {clean(found['folder'])}", style="dim")
        for failure in found["failures"]:
            yield Text()
            yield from _failure(failure)
        return
    yield Text.assemble(badge(str(found["verdict"])), f"  {clean(found['plan'].get('name') or '')}")
    yield Text(f"run {clean(found['folder'])}", style="dim")
    if not found["reasons"]:
        yield Text("No rule fired: there is nothing to explain.")
    for place, reason in enumerate(found["reasons"], 1):
        yield Text()
        yield from _reason(place, reason)


def _reason(place: int, reason: Found) -> Iterator[RenderableType]:
    where = ", ".join(
        f"{kind} {clean(reason[kind])}"
        for kind in ("stage", "output", "decision")
        if kind in reason
    )
    yield Text.assemble((f"{place}. {clean(reason['code'])}", "bold"), (f"  {where}", "dim"))
    yield indented(Text(clean(reason["message"])), 3)
    for sample in reason["worst"]:
        yield indented(Text(_brief(sample)), 3)
    if reason.get("next"):
        yield indented(Text(f"next: {clean(reason['next'])}", style="italic"), 3)
    if reason.get("explain"):
        yield indented(Text(f"more: {clean(reason['explain'])}"), 3)


def _brief(sample: Found) -> str:
    parts = [f"id {clean(sample['id'])}: {clean(', '.join(sample['rules']))}"]
    if sample.get("index") is not None and sample.get("ref_value") is None:  # texts
        parts.append(f"{clean(sample['output'])}[{sample['index']}] differs")
    elif sample.get("index") is not None:
        parts.append(
            f"{clean(sample['output'])}[{sample['index']}] reference "
            f"{number(sample['ref_value'], 9)}, candidate {number(sample['cand_value'], 9)}, "
            f"{_times(sample['excess'])} what is allowed"
        )
    parts += [
        f"{clean(name)} {clean(d.get('ref'))} -> {clean(d.get('cand'))}"
        for name, d in sample["decisions"].items()
        if d.get("ref") != d.get("cand")
    ]
    return "; ".join(parts)


def _failure(found: Found) -> Iterator[RenderableType]:
    head = Text.assemble((f"Stage {clean(found['stage'])}", "bold"))
    head.append(f"  {clean(', '.join(found['rules']))}", style="red")
    yield head
    place = f"row {found['row']:,} of the golden samples"
    if found.get("batch") is not None:
        place += f", batch {found['batch']:,}, position {found['batch_position']:,}"
    yield indented(Text(place, style="dim"))
    for side in ("reference", "candidate"):
        yield indented(Text(f"{side}  {_side(found[side])}"))
    for name, decision in found["decisions"].items():
        yield indented(Text(_decision(name, decision)))
    if not found["is_kept"]:
        yield indented(
            Text(
                "its values were not kept: the shard holds the worst samples only; raise "
                "max_failures or max_failure_bytes in the plan and run again"
            )
        )
    for name, output in found["outputs"].items():
        yield from (indented(part) for part in _output(name, output))
    for line in found["next"]:
        yield indented(Text(f"next: {clean(line)}", style="italic"))
    if found["is_kept"]:
        yield indented(Text(f"alone:              {clean(found['replay'])}"))
        yield indented(Text(f"in its own batch:   {clean(found['replay_with_batch'])}"))


def _side(side: Found) -> str:
    precision = side.get("precision") or {}
    parts = [f"{clean(side['runner'])}: {clean(side.get('kind') or 'unknown')}"]
    if side.get("model"):
        parts.append(clean(side["model"]))
    if side.get("digest"):
        parts.append(f"digest {clean(str(side['digest'])[:12])}")
    if precision.get("arithmetic"):
        parts.append(f"calculates in {clean(precision['arithmetic'])}")
    if side.get("opsets"):
        opsets = side["opsets"].items()
        parts.append("opset " + ", ".join(f"{clean(d)} {clean(v)}" for d, v in opsets))
    if side.get("batch_size"):
        parts.append(f"batches of {clean(side['batch_size'])}")
    return ", ".join(parts)


def _decision(name: str, found: Found) -> str:
    if found.get("ref") is None and found.get("cand") is None:
        return f"decision {clean(name)}: not decided"
    word = "flipped" if found.get("flipped") else "kept"
    text = f"decision {clean(name)} {word}: reference {clean(found.get('ref'))}, "
    text += f"candidate {clean(found.get('cand'))}"
    margin = found.get("margin")
    return text if margin is None else f"{text}, margin {number(margin, 6)} on the reference side"


def _output(name: str, found: Found) -> Iterator[RenderableType]:
    head = Text(f"output {clean(name)}: ")
    sides = found["reference"], found["candidate"]
    texts = [clean(side) if side is not None else "no answer" for side in sides]
    head.append(f"reference {texts[0]}, candidate {texts[1]}")
    if "elements" in found:
        fail = f"{found['failing_elements']:,} of {found['elements']:,} elements fail"
        head.append(f"; {fail}" if found["rules"] else "; agrees")
    if found.get("note"):
        head.append(f"; {clean(found['note'])}")
    yield head
    worst = found.get("worst")
    if worst is None or not found["rules"]:
        return
    yield indented(Text(f"worst at element {worst['index']:,}, place {worst['place']}"))
    for side in ("reference", "candidate"):
        value = worst[side]
        hexed = f"  ({clean(value['hex'])})" if "hex" in value else ""
        yield indented(Text(f"{side}  {clean(value['text'])}{hexed}"), 4)
    if worst["error"] is not None:
        yield indented(Text(_error(worst, found["tolerance"])), 4)
    magnitude = worst.get("magnitude")
    if magnitude is not None:
        yield indented(Text(_magnitude(magnitude)), 4)


def _error(worst: Found, tolerance: Found) -> str:
    text = (
        f"|error| {number(worst['error'], 6)}, allowed {number(worst['allowed'], 6)} (atol "
        f"{number(tolerance['atol'], 6)} + rtol {number(tolerance['rtol'], 6)} x |reference|): "
        f"{_times(worst['excess'])} what is allowed"
    )
    if worst.get("ulp") is not None:
        text += f", {number(worst['ulp'])} ULP of {clean(worst['ulp_of'])}"
    return text


def _magnitude(found: Found) -> str:
    if found.get("relative") is None:
        return f"compared with the output's magnitude: {clean(found['says'])}"
    return (
        f"{number(found['relative'])} of the output's magnitude ({number(found['scale'], 6)}): "
        f"{clean(found['says'])}"
    )


def _times(excess: object) -> str:
    return f"{number(excess)} times" if excess is not None else "beyond"
