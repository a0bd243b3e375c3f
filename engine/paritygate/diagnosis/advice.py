"""What to look at next, from what was found out about a failing sample."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

SYSTEMATIC = 0.9


def advise(found: Mapping[str, Any], stage: Mapping[str, Any]) -> list[str]:
    """Sentences, the most telling first.

    Args:
        found: the explanation of a sample, without this list.
        stage: the summary of its stage.
    """
    if stage.get("of") == "inputs":
        return list(dict.fromkeys([*_of_patterns(found), *_of_inputs(found)]))
    return list(dict.fromkeys([*_of_patterns(found), *_of_rules(found, stage), *_of_sides(found)]))


def _of_inputs(found: Mapping[str, Any]) -> Iterator[str]:
    """Of a stage in which raw records were prepared anew."""
    if not found["outputs"]:
        yield "the function gave no answer for this sample: look at its raw record"
    yield (
        "the product prepares this record otherwise than the golden inputs say: look at scale, "
        "units, order of channels and casts of the preprocessing, and at what wrote the inputs"
    )


def _of_patterns(found: Mapping[str, Any]) -> Iterator[str]:
    for name, output in found["outputs"].items():
        for pattern in output.get("patterns", ()):
            of = f"(so in {pattern['samples']} of {pattern['of']} failing samples looked at)"
            if pattern["kind"] in ("all_nan", "all_zero"):
                yield (
                    f"output {name!r}: {pattern['says']} {of}: look for overflow in a narrower "
                    "dtype, a division, a mask, or weights that were not loaded"
                )
            else:
                yield (
                    f"output {name!r}: the candidate agrees {pattern['says']} {of}: "
                    f"{_MEND[pattern['kind']]}"
                )


_MEND: Mapping[str, str] = {
    "reshaped": "the numbers are right and the shape isn't; mend the export's last reshape",
    "transposed": "the export changed the layout (NCHW against NHWC, for one); mend it there",
    "reversed": "an axis runs the other way (channel order RGB against BGR, time, a flipped image)",
    "layout": "its memory is laid out otherwise than its shape says; look at the last transpose",
    "softmax": "one side ends with a step that the other leaves to its caller; export both alike",
    "sigmoid": "one side ends with a step that the other leaves to its caller; export both alike",
    "permuted": "the two sides list their classes in different orders; compare the class lists",
    "offset": "look at a bias, a mean that is subtracted, or a zero point",
    "scale": "look at a scale: normalisation, units, a quantisation scale",
    "line": "look at normalisation (mean and scale) or a quantisation's scale and zero point",
    "swapped": "two outputs are exchanged; map them by name (runners.NAME.outputs)",
}


def _of_rules(found: Mapping[str, Any], stage: Mapping[str, Any]) -> Iterator[str]:
    rules = set(found["rules"])
    if any(rule.startswith("runner.") for rule in rules):
        for side, error in (stage.get("errors") or {}).items():
            yield f"the {side} gave no answer; the first time: {error.get('first')}"
    if "sample.missing" in rules:
        yield "a recording lacks this sample: record it, or take it out of the golden pack"
    if "output.missing" in rules:
        yield "a side doesn't answer an output: map its name (runners.NAME.outputs)"
    if rules & {"dtype.mismatch", "shape.mismatch"} and not any(_of_patterns(found)):
        yield "shapes or dtypes disagree: look at casts and at the layout of the export's outputs"
    if any(rule.startswith("nonfinite.") for rule in rules):
        yield "NaN or infinity: look for overflow, masks or a division in the converted graph"
    if "tolerance.exceeded" in rules or "tolerance.hard_cap" in rules:
        yield from _of_errors(found, stage)
    if "decision.flip" in rules and not rules & {"tolerance.exceeded", "tolerance.hard_cap"}:
        yield (
            "the outputs are within their tolerance and the decision changed all the same: the "
            "score lies close to an edge, so a tighter tolerance, not a wider budget, mends it"
        )


def _of_errors(found: Mapping[str, Any], stage: Mapping[str, Any]) -> Iterator[str]:
    counts = stage["samples"]
    failed, compared = counts.get("failed"), counts.get("compared")
    if isinstance(failed, int) and isinstance(compared, int) and compared:
        if failed >= SYSTEMATIC * compared:
            yield (
                f"{failed} of {compared} samples fail, so it is the model and not this sample: "
                "look at evaluation mode (dropout, batch normalisation), opset, preprocessing, "
                "layout and weights"
            )
        else:
            yield (
                f"{failed} of {compared} samples fail: look at what sets this sample's inputs "
                "apart (range, saturation, rare values), and at dtype casts on their way"
            )
    worst = [o["worst"]["magnitude"] for o in found["outputs"].values() if o.get("worst")]
    if any(m and m["level"] == "bug" for m in worst):
        yield "an error of this size is seldom rounding: look at casts, opset and evaluation mode"


def _of_sides(found: Mapping[str, Any]) -> Iterator[str]:
    ref, cand = found["reference"], found["candidate"]
    precisions = [_arithmetic(side) for side in (ref, cand)]
    if all(precisions) and precisions[0] != precisions[1]:
        yield (
            f"the reference calculates in {precisions[0]}, the candidate in {precisions[1]}: look "
            "at the ranges that its calibration or its casts assume"
        )
    if ref.get("opsets") and cand.get("opsets") and ref["opsets"] != cand["opsets"]:
        yield f"the opsets differ: reference {ref['opsets']}, candidate {cand['opsets']}"
    if any(_is_dynamic(side) for side in (ref, cand)):
        yield (
            "dynamic quantisation takes its scale from the whole batch, so that samples depend on "
            "their neighbours: replay it alone and with --with-batch, and compare"
        )


def _arithmetic(side: Mapping[str, Any]) -> str | None:
    precision = side.get("precision")
    return str(precision.get("arithmetic")) if isinstance(precision, Mapping) else None


def _is_dynamic(side: Mapping[str, Any]) -> bool:
    precision = side.get("precision")
    return isinstance(precision, Mapping) and bool(precision.get("dynamic_quantization"))
