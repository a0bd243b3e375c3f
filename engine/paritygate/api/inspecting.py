"""Look into a model: what it is made of, and what in it would hold every run of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from paritygate.admission.admit import Admitted, admit_model
from paritygate.admission.concerns import Concern, short
from paritygate.admission.errors import AdmissionError
from paritygate.admission.inspect import Inspection
from paritygate.admission.inspect_other import form_of_model, inspect_other
from paritygate.core.errors import PlanError, Problem
from paritygate.core.versions import Target
from paritygate.runners.ort_support import Support, installed_support

SCHEMA_VERSION = 1


def inspect_model(
    model: str | PathLike[str],
    *,
    onnxruntime: str | None = None,
    max_opset: int | None = None,
    max_ir: int | None = None,
) -> dict[str, Any]:
    """What a model is made of, and what in it would hold every run of it; nothing is run.

    An ONNX file is copied, digested and checked as a run does it, without loading its external
    data into memory. Of a file of torch is said what can be said without unpickling.

    Args:
        model: an ONNX file, or a file of torch.
        onnxruntime: a release on which it is to run, such as "1.17".
        max_opset: the newest opset that its target takes.
        max_ir: the newest IR version that its target takes.

    Returns:
        What `paritygate inspect --json` prints. `findings` holds what would hold a run, each with
        `code`, `message` and `next`.

    Raises:
        ParityError: it can't be read, is malformed, or its external data isn't fit to be read.
    """
    target = _target(onnxruntime, max_opset, max_ir)
    path = Path(model)
    form = form_of_model(path)
    head: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "model": str(path), "form": form}
    if form != "onnx":
        try:
            identity, found = inspect_other(path, form)
        except OSError as e:
            raise AdmissionError(f"{path}: can't be read: {e.strerror or e}") from None
        return {**head, "identity": identity, **found.to_json()}
    with admit_model(path) as held:
        return {**head, **_describe(held.value, target)}


def _target(onnxruntime: str | None, max_opset: int | None, max_ir: int | None) -> Target | None:
    if onnxruntime is None and max_opset is None and max_ir is None:
        return None
    try:
        return Target.of(onnxruntime, max_opset, max_ir)
    except ValueError as e:
        raise PlanError([Problem("onnxruntime", str(e))], "inspect") from None


def _describe(model: Admitted, target: Target | None) -> dict[str, Any]:
    support = installed_support()
    found = model.inspection
    concerns = [*found.concerns, *_needs(found), *_beyond(model, support, target)]
    facts = model.facts
    return {
        "identity": {
            "digest": model.identity.digest,
            "sha256": model.identity.sha256,
            "semantic_digest": model.identity.semantic,
            "graph_digest": model.identity.graph,
            "bytes": model.identity.bytes,
            "external_data": [asdict(file) for file in model.identity.files],
        },
        "ir_version": facts.ir_version,
        "opsets": {short(d): v for d, v in list(facts.opsets.items())[:200]},
        "producer": short(facts.producer),
        "graph": short(facts.graph),
        "inputs": _bounded(facts.inputs),
        "outputs": _bounded(facts.outputs),
        "precision": dict(model.precision),
        "nodes": len(model.nodes),
        "installed": asdict(support) if support is not None else None,
        "target": asdict(target) if target is not None else None,
        **Inspection(found.facts, tuple(concerns), found.notes).to_json(),
    }


def _bounded(tensors: Mapping[str, str], most: int = 200) -> dict[str, str]:
    return {short(name): short(told, 300) for name, told in list(tensors.items())[:most]}


def _needs(found: Inspection) -> Iterator[Concern]:
    for domain in found.foreign:
        yield Concern(
            "runner.load_failed",
            f"operators of {short(domain)!r} aren't ONNX Runtime's own, so a run needs the library "
            "that brings them",
            "name it with its digest, for its code is run: runners.NAME.custom_op_libraries = "
            '[{ path = "libops.so", sha256 = "..." }]',
        )


def _beyond(model: Admitted, support: Support | None, target: Target | None) -> Iterator[Concern]:
    """What the installed runtime, and the one that is meant, don't take."""
    advice = "export it for an older version, or take a newer onnxruntime"
    facts = model.facts
    if support is not None:
        here = Target(
            f"the installed onnxruntime {support.version}",
            support.max_opset,
            support.max_ml_opset,
            support.max_ir,
        )
        for text in here.beyond(facts.ir_version, facts.opsets):
            yield Concern("runner.load_failed", text, advice)
    for text in target.beyond(facts.ir_version, facts.opsets) if target is not None else ():
        yield Concern("admission.target", text, advice)
