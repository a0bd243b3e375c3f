"""What was found in a pack, as sentences and as data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from paritygate.golden.check import Balance, PackFacts
from paritygate.golden.overlap import Overlap

Status = Literal["ok", "fail", "note"]

_MOST_COLUMNS = 200
_LONGEST = 120


def describe_pack(facts: PackFacts) -> list[tuple[Status, str]]:
    """Status and sentence of each thing looked at."""
    return [*_ids(facts), *_evidence(facts), *_contents(facts), *_balance(facts), *_equal(facts)]


def _ids(facts: PackFacts) -> Iterator[tuple[Status, str]]:
    files = f"{len(facts.files)} file{'s' if len(facts.files) != 1 else ''}"
    head = f"{facts.samples} samples in {files}, {facts.id_kind} ids"
    if not facts.samples:
        yield "fail", f"{head}: an empty pack proves nothing"
    elif not facts.scan.duplicates:
        yield "ok", f"{head}, none twice"
    else:
        told = [
            f"{_short(d.id)} (rows {d.first_row} and {d.row})" for d in facts.scan.first_duplicates
        ]
        more = ", ..." if facts.scan.duplicates > len(told) else ""
        count = facts.scan.duplicates
        text = f"{count} row{'s repeat' if count > 1 else ' repeats'} an id: "
        yield "fail", f"{head}; {text}{', '.join(told)}{more}"


def _short(id_: int | str) -> str:
    return _cut(repr(id_))


def _cut(text: str) -> str:
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}... ({len(text):,} characters)"


def _evidence(facts: PackFacts) -> Iterator[tuple[Status, str]]:
    if facts.synthetic and facts.synthetic == facts.samples:
        yield (
            "fail",
            "evidence.synthetic: all samples are synthetic, which is no acceptance evidence",
        )
    elif facts.synthetic:
        count = facts.synthetic
        yield "note", f"{count} of {facts.samples} samples are synthetic: no acceptance evidence"


def _contents(facts: PackFacts) -> Iterator[tuple[Status, str]]:
    for name, told in facts.meanings[:_MOST_COLUMNS]:
        yield "fail", f"column {name}: {told}; build the pack anew, or mend its metadata"
    for name, dtype, dims in facts.columns[:_MOST_COLUMNS]:
        shape = ", ".join(["batch", *("?" if dim is None else str(dim) for dim in dims)])
        yield "note", f"column {name}: {dtype}[{shape}]"
    if len(facts.columns) > _MOST_COLUMNS:
        yield "note", f"and {len(facts.columns) - _MOST_COLUMNS} more columns"
    if not any(name.startswith("in.") for name, _, _ in facts.columns):
        yield "note", "no column in.NAME: a recording, on which no model can be run"
    if facts.recorded and facts.recorded != facts.digest:
        text = f"content digest {facts.digest}, but it was written with {facts.recorded}"
        yield "fail", f"{text}: samples have changed since, or some are missing"
    else:
        told = ", as recorded when it was written" if facts.recorded else ""
        yield "ok", f"content digest {facts.digest}{told}"


def _balance(facts: PackFacts) -> Iterator[tuple[Status, str]]:
    if facts.labels is not None:
        yield "note", f"labels: {_counts(facts.labels, facts.samples)}"
    for name, values in facts.slices.items():
        yield "note", f"slice {name}: {_counts(values, facts.samples)}"


def _counts(values: Balance, samples: int, most: int = 20) -> str:
    told = [f"{_cut(v)} {n} ({100 * n / samples:.1f} %)" for v, n in list(values.items())[:most]]
    return ", ".join(told) + (f", and {len(values) - most} more" if len(values) > most else "")


def _equal(facts: PackFacts) -> Iterator[tuple[Status, str]]:
    if facts.equal is not None and facts.equal.count:
        count = facts.equal.count
        told = ", ".join(f"{_short(again)} = {_short(first)}" for again, first in facts.equal_ids)
        more = ", ..." if count > len(facts.equal_ids) else ""
        text = "sample has" if count == 1 else "samples have"
        yield "note", f"{count} {text} all inputs of an earlier one: {told}{more}"
    if facts.overlap is not None:
        yield _overlap(facts, facts.overlap)


def _overlap(facts: PackFacts, found: Overlap) -> tuple[Status, str]:
    where = f"{', '.join(map(str, found.files[:3]))} ({found.samples} samples)"
    if not found.count:
        return "ok", f"no sample is also in {where}"
    told = ", ".join(f"{_short(ours)} (there {_short(theirs)})" for ours, theirs in found.first)
    more = ", ..." if found.count > len(found.first) else ""
    verb = "is" if found.count == 1 else "are"
    text = f"{found.count} of {facts.samples} samples {verb} also in {where}: {told}{more}"
    return "fail", f"evidence.calibration_overlap: {text}"


def pack_summary(facts: PackFacts, lines: Sequence[tuple[Status, str]]) -> dict[str, Any]:
    """The same for programs."""
    found: dict[str, Any] = {
        "schema_version": 1,
        "problems": [text for status, text in lines if status == "fail"],
        "files": [{"path": str(p), "rows": rows, "bytes": size} for p, rows, size in facts.files],
        "samples": facts.samples,
        "synthetic": facts.synthetic,
        "id_kind": facts.id_kind,
        "content_digest": facts.digest,
        "recorded_digest": facts.recorded or None,
        "duplicate_ids": {
            "count": facts.scan.duplicates,
            "first": [
                {"id": d.id, "first_row": d.first_row, "row": d.row}
                for d in facts.scan.first_duplicates
            ],
        },
        "columns": [
            {"name": name, "dtype": dtype, "shape": list(dims)}
            for name, dtype, dims in facts.columns
        ],
        "labels": facts.labels,
        "slices": facts.slices,
        "equal_inputs": None,
        "overlap": None,
    }
    if facts.equal is not None:
        first = [{"id": again, "earlier_id": id_} for again, id_ in facts.equal_ids]
        found["equal_inputs"] = {"count": facts.equal.count, "first": first}
    if facts.overlap is not None:
        found["overlap"] = {
            "files": [str(path) for path in facts.overlap.files],
            "samples": facts.overlap.samples,
            "count": facts.overlap.count,
            "first": [{"id": a, "other_id": b} for a, b in facts.overlap.first],
        }
    return found
