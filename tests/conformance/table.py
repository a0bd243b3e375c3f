"""The conformance table: every kind of hazard, every row, and what isn't covered yet."""

from __future__ import annotations

from dataclasses import dataclass

from tests.conformance import (
    rows_admission,
    rows_consistency,
    rows_contract,
    rows_decisions,
    rows_doors,
    rows_dtypes,
    rows_evidence,
    rows_exits,
    rows_inspect,
    rows_isolated,
    rows_kinds,
    rows_live,
    rows_packs,
    rows_raw,
    rows_replay,
    rows_runtimes,
    rows_shapes,
    rows_structure,
    rows_torch,
    rows_values,
)
from tests.conformance.case import Case


@dataclass(frozen=True)
class Kind:
    """A way in which a gate can pass what it shouldn't.

    Attributes:
        title: its name.
        seen: how it shows.
    """

    title: str
    seen: str


KINDS: dict[str, Kind] = {
    "least": Kind(
        "The least that a gate must get right",
        "Ordinary values, values near zero, crossed thresholds, a larger deviation, other lengths, "
        "nothing at all, one element, three elements. NaN, infinity and ties have kinds of their "
        "own below.",
    ),
    "ties": Kind(
        "Exact ties",
        "A score that equals an edge, an error that equals what is allowed, and the next number on "
        "either side.",
    ),
    "nothing": Kind(
        "Nothing compared",
        "No samples, no outputs, no elements, or nobody who answers: an empty comparison passes.",
    ),
    "fewer": Kind(
        "Fewer compared than promised",
        "The shorter side decides how much is compared, or samples are paired by position.",
    ),
    "outputs": Kind(
        "Outputs lost",
        "An output that one side lacks is skipped, or outputs are paired by position or likeness.",
    ),
    "rejudged": Kind(
        "Judging again loses the failure",
        "A failed result that was kept passes when it is judged again with default options.",
    ),
    "nan": Kind(
        "NaN in the comparison",
        "`nan > limit` is false, so NaN passes; or NaN is replaced, or dropped from a mean.",
    ),
    "inf": Kind(
        "Infinite reference",
        "What is allowed is infinite beside an infinite reference, so that anything passes.",
    ),
    "wrap": Kind(
        "Integer wrap-around",
        "The difference of two integers is taken in their own dtype and wraps around.",
    ),
    "ids": Kind(
        "Identities compared as numbers",
        "A tolerance that is meant for floats is applied to token ids, or ids become floats.",
    ),
    "overflow": Kind(
        "Overflow inside the metric",
        "Sums and products of the metric overflow, and the result is clamped to a perfect one.",
    ),
    "averages": Kind(
        "Averages hide points",
        "A mean, a cosine or an energy passes though single elements are far off.",
    ),
    "vacuous": Kind(
        "Limits that let everything pass",
        "A limit that no value can break, or a tolerance that is no number.",
    ),
    "flips": Kind(
        "Decisions flip under a passing metric",
        "Numbers agree within their tolerance and the product still does something else.",
    ),
    "batch": Kind(
        "A batch judged as one",
        "One bad row of a batch is averaged away, or isn't named.",
    ),
    "warnings": Kind(
        "Warnings in place of failures",
        "A failure is told in passing, and what could not be judged counts as passed.",
    ),
    "provider": Kind(
        "Silent provider fallback",
        "The accelerator isn't used, everything runs on the CPU, and the numbers agree.",
    ),
    "runtime": Kind(
        "A runtime changes what a model says",
        "Rewrites that aren't equal, threads, batches, conversions that lose NaN, float16 that is "
        "calculated in float32: seen in released versions, under the same model file.",
    ),
    "ships": Kind(
        "What was checked isn't what ships",
        "Both sides are one thing, or settings are changed for the check.",
    ),
    "inside": Kind(
        "Wrong on both sides",
        "A scale of 0, a dropout that is on, versions that the device doesn't take: two sides "
        "agree and neither can ship.",
    ),
    "external": Kind(
        "Weights changed under the model file",
        "Weights lie in other files, and the model file's digest stays as it is.",
    ),
    "calibrated": Kind(
        "Tested on what it was calibrated on",
        "Samples of the calibration data are among those that the quantized model is judged on.",
    ),
    "made up": Kind(
        "Tested on inputs that were made up",
        "Zeros, ones and random numbers agree; nothing that occurs was ever compared.",
    ),
    "uncovered": Kind(
        "Tested far from where it matters",
        "All samples lie far from every edge, in a few classes and within one batch size.",
    ),
    "prepared": Kind(
        "Inputs that are prepared otherwise",
        "The model is judged on golden inputs, and the product makes others of the same records: "
        "channels swapped, another scale, a cast on the way.",
    ),
    "inputs": Kind(
        "Inputs that aren't what they seem",
        "Channels swapped, another unit, values out of range, gaps that are filled silently: both "
        "sides are given the same and agree.",
    ),
    "layout": Kind(
        "Layout and dtype",
        "Arrays with as many elements are flattened, broadcast or cast until they can be compared.",
    ),
    "coupling": Kind(
        "Batch coupling",
        "A sample's answer depends on the batch that it is in, and one batch size is checked.",
    ),
    "source": Kind(
        "A source that isn't what it seems",
        "The framework's own model is in training mode, keeps a state between calls, has its "
        "weights cast as they are loaded, or is a file that runs code.",
    ),
    "exits": Kind(
        "One exit code for everything",
        "A model that differs, a bad argument and a crash end with the same code.",
    ),
}

ROWS: tuple[Case, ...] = (
    *rows_values.ROWS,
    *rows_structure.ROWS,
    *rows_decisions.ROWS,
    *rows_kinds.ROWS,
    *rows_live.ROWS,
    *rows_doors.ROWS,
    *rows_exits.ROWS,
    *rows_consistency.ROWS,
    *rows_replay.ROWS,
    *rows_shapes.ROWS,
    *rows_packs.ROWS,
    *rows_evidence.ROWS,
    *rows_contract.ROWS,
    *rows_raw.ROWS,
    *rows_dtypes.ROWS,
    *rows_runtimes.ROWS,
    *rows_isolated.ROWS,
    *rows_torch.ROWS,
    *rows_admission.ROWS,
    *rows_inspect.ROWS,
)

NOT_YET: dict[str, str] = {
    "Too few runs for a claim about latency (p99.9 from 20 runs, first-run cost in the mean, "
    "warm-up at another shape)": "latency isn't measured yet, so nothing is claimed; every verdict "
    "lists it as not judged",
    "A checksum field of external data that nobody verifies": "the field isn't read; the model's "
    "identity hashes every byte of the files themselves, which the rows on external data cover",
    "The accelerator takes part of the nodes only": "a hold (`placement.fallback`), which is "
    "tested beside the runner under a real second provider; rows run on any machine",
    "Fallback on a machine with a real accelerator whose library is missing": "rows run on any "
    "machine, so the build's list of providers, or what the session says of itself, is replaced; "
    "the session below it is a real one",
    "A debug graph with all outputs exposed": "there is no such graph: the model file is run as it "
    "is",
    "A runner that crashes or hangs the whole process": "runners aren't isolated yet; what "
    "raises is a hold",
    "A runtime that switches the process to flush denormals": "the option that does so in ONNX "
    "Runtime is refused; a library that does it by itself ends the run unjudged, which is tested "
    "beside the comparison, for the switch would outlive the row",
    "Interruption": "tested beside the command, with a real signal",
}
