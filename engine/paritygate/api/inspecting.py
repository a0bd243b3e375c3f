"""Look into a model: what it is made of, and what in it would hold every run of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

from paritygate.admission.admit import Admitted, admit_model
from paritygate.admission.concerns import Concern, short
from paritygate.admission.errors import AdmissionError
from paritygate.admission.inspect import Inspection
from paritygate.admission.inspect_other import form_of_model, inspect_other
from paritygate.runners.ort_support import Support, installed_support

SCHEMA_VERSION = 1


def inspect_model(model: str | PathLike[str]) -> dict[str, Any]:
    """What a model is made of, and what in it would hold every run of it; nothing is run.

    An ONNX file is copied, digested and checked as a run does it, without loading its external
    data into memory. Of a file of torch is said what can be said without unpickling.

    Args:
        model: an ONNX file, or a file of torch.

    Returns:
        What `paritygate inspect --json` prints. `findings` holds what would hold a run, each with
        `code`, `message` and `next`.

    Raises:
        ParityError: it can't be read, is malformed, or its external data isn't fit to be read.
    """
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
        return {**head, **_describe(held.value)}


def _describe(model: Admitted) -> dict[str, Any]:
    support = installed_support()
    found = model.inspection
    concerns = [*found.concerns, *_needs(found), *_beyond(model, support)]
    facts = model.facts
    return {
        "identity": {
            "digest": model.identity.digest,
            "sha256": model.identity.sha256,
            "bytes": model.identity.bytes,
            "external_data": [asdict(file) for file in model.identity.files],
        },
        "ir_version": facts.ir_version,
        "opsets": dict(facts.opsets),
        "producer": short(facts.producer),
        "graph": short(facts.graph),
        "inputs": _bounded(facts.inputs),
        "outputs": _bounded(facts.outputs),
        "precision": dict(model.precision),
        "nodes": len(model.nodes),
        "installed": asdict(support) if support is not None else None,
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


def _beyond(model: Admitted, support: Support | None) -> Iterator[Concern]:
    """What the installed runtime doesn't take."""
    if support is None:
        return
    opsets = model.facts.opsets
    for what, has, most in (
        ("IR version", model.facts.ir_version, support.max_ir),
        ("opset", opsets.get("ai.onnx", 0), support.max_opset),
        ("opset of ai.onnx.ml", opsets.get("ai.onnx.ml", 0), support.max_ml_opset),
    ):
        if most is not None and has > most:
            yield Concern(
                "runner.load_failed",
                f"it has {what} {has}, and the installed onnxruntime {support.version} takes up to "
                f"{most}",
                "export it for an older version, or install a newer onnxruntime",
            )
