"""What to write into a plan where a model's operators, or their library, can't be loaded."""

from __future__ import annotations

from paritygate.admission.place import VARIABLE
from paritygate.runners.ort_admit import Artifacts

_UNKNOWN = ("is not a registered function/op", "No opset import for domain", "No Op registered for")


def advise_on_operators(runner: str, text: str, artifacts: Artifacts) -> str:
    """A clause to go on with after what ONNX Runtime said; empty where it is about other things.

    Args:
        runner: its name in the plan.
        text: all that ONNX Runtime said.
        artifacts: what it was to load.
    """
    if "Failed to load library" in text:
        return (
            "; a library of operators is loaded from a private copy, where it doesn't find others "
            f"that lie beside it, and which must allow execution: another folder by {VARIABLE}"
        )
    domains = artifacts.model.inspection.foreign
    if not domains or not any(said in text for said in _UNKNOWN):
        return ""
    names = ", ".join(repr(domain) for domain in domains)
    if artifacts.libraries:
        return f"; the libraries that the plan names don't bring all operators of {names}"
    return (
        f"; operators of {names} aren't ONNX Runtime's own: name the library that brings them, "
        f"with what sha256sum prints of it: runners.{runner}.custom_op_libraries = [{{ path = "
        '"libops.so", sha256 = "..." }]'
    )
