"""What `paritygate inspect` found in a model, as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from paritygate_frontends.report.checks import render_checks
from paritygate_frontends.report.figures import counted

_MOST = 40

Line = tuple[str, str, str]


def render_inspection(found: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Lay out what `inspect_model` answered: facts, notes, then what would hold a run."""
    return render_checks(list(_lines(found)))


def _lines(found: Mapping[str, Any]) -> Iterator[Line]:
    yield from _identity(found)
    if found["form"] == "onnx":
        yield from _onnx(found)
    else:
        yield "note", "what", str(found["what"])
        if "members" in found:
            size = f"{found['unpacked_bytes']:,} bytes unpacked"
            yield "note", "archive", f"{counted(found['members'], 'member')}, {size}"
    yield from _operators(found.get("operators", ()))
    for note in found["notes"]:
        yield "note", "note", note
    for finding in found["findings"]:
        yield "fail", finding["code"], f"{finding['message']}; {finding['next']}"


def _identity(found: Mapping[str, Any]) -> Iterator[Line]:
    told = found["identity"]
    yield "ok", "model", f"{found['model']}: {found['form']}, {told['bytes']:,} bytes"
    if "digest" not in told:
        yield "note", "sha256", told["sha256"]
        return
    yield "note", "digest", told["digest"]
    yield "note", "semantic digest", told["semantic_digest"]
    for file in told["external_data"][:_MOST]:
        text = f"{file['location']}: {file['bytes']:,} bytes, sha256 {file['sha256']}"
        yield "note", "external data", text
    if len(told["external_data"]) > _MOST:
        yield "note", "external data", f"{len(told['external_data']):,} files in all"


def _onnx(found: Mapping[str, Any]) -> Iterator[Line]:
    opsets = ", ".join(f"{name} {version}" for name, version in found["opsets"].items())
    by = f", written by {found['producer']}" if found["producer"] else ""
    yield "ok", "structure", f"sound; IR version {found['ir_version']}, opset {opsets}{by}"
    support = found["installed"]
    if support is not None:
        most = f"IR version {support['max_ir']}, opset {support['max_opset']}"
        yield "note", "installed", f"onnxruntime {support['version']} takes up to {most}"
    target = found["target"]
    if target is not None:
        limits = [("IR version", target["max_ir"]), ("opset", target["max_opset"])]
        most = ", ".join(f"{what} {limit}" for what, limit in limits if limit is not None)
        yield "note", "target", f"{target['name']} takes up to {most}"
    for what in ("inputs", "outputs"):
        for name, told in list(found[what].items())[:_MOST]:
            yield "note", what.removesuffix("s"), f"{name}: {told}"
    for name, tensors in found["open_dims"].items():
        yield "note", "open dim", f"{name}: {', '.join(tensors[:_MOST])}"
    for dtype, told in found["tensors"].items():
        size = f"{told['elements']:,} elements, {told['bytes']:,} bytes"
        where = f", {told['external']:,} of them external" if told["external"] else ""
        yield "note", "tensors", f"{told['tensors']:,} of {dtype}: {size}{where}"
    yield "note", "precision", str(found["precision"]["arithmetic"])
    yield from _quantization(found["quantization"])
    for name in found["functions"][:_MOST]:
        yield "note", "function", name
    for key, value in list(found["metadata"].items())[:_MOST]:
        yield "note", "metadata", f"{key}: {value}"


def _quantization(told: Mapping[str, Any]) -> Iterator[Line]:
    if told:
        words = [f"{n:,} {kind.replace('_', ' ')}" for kind, n in told["weights"].items()]
        dtypes = [f"{n:,} {dtype}" for dtype, n in told["weight_dtypes"].items()]
        weights = f"; weights: {', '.join(words)} ({', '.join(dtypes)})" if words else ""
        yield "note", "quantization", f"{', '.join(told['formats'])}{weights}"


def _operators(told: Sequence[Mapping[str, Any]]) -> Iterator[Line]:
    if told:
        words = [f"{_name(operator)} {operator['count']:,}" for operator in told]
        more = f", and {len(words) - _MOST:,} more" if len(words) > _MOST else ""
        yield "note", "operators", ", ".join(words[:_MOST]) + more


def _name(operator: Mapping[str, Any]) -> str:
    domain = operator.get("domain", "ai.onnx")
    return str(operator["op_type"]) if domain == "ai.onnx" else f"{domain}:{operator['op_type']}"
