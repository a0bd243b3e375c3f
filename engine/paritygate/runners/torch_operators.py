"""Operators of TorchScript that touch files or other machines: none is called.

In the text of an archive an operator is called by its name after a dot, or by `getattr` with a
name; code of `__setstate__` runs while the archive is loaded, so the text is looked through before.
The graphs of what was compiled are looked through afterwards: only operators that calculate.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from paritygate.runners.torch_program import ProgramError

_NAMES = "save|from_file|load_tensor"
_REMOTE = "rpc_sync|rpc_async|rpc_remote"
_GAP = r"(?:\s|\\|#[^\n]*\n)*"
_CALLED = re.compile(rf"(?:\.{_GAP}({_NAMES})|\b({_REMOTE}))\b")
_DENIED = frozenset(f"{_NAMES}|{_REMOTE}".split("|"))
# Submodules whose names are no identifiers, as the 0 of a Sequential, are written so; an operator
# has a name that is one.
_PLAIN = r"[^\"'()#]"
_INNER = rf"\((?:{_PLAIN}|\({_PLAIN}*\))*\)"
_GETATTR = re.compile(rf"\bgetattr\((?:{_PLAIN}|{_INNER})*, \"([^\"\\\n]*)\"\)")
_ANY_GETATTR = re.compile(r"\bgetattr\b")
_FOREIGN = re.compile(rf"(?<![\w.])ops{_GAP}\.{_GAP}(\w+)")
_CALCULATE = frozenset(
    {
        *("aten", "prim", "prims", "quantized", "_quantized", "sparse", "mkldnn", "onednn"),
        *("mkldnn_prepacked", "prepacked", "mkl", "quantization", "inductor", "static_runtime"),
        *("profiler", "torchvision"),
    }
)


def check_text(code: str, record: str) -> None:
    """Refuse code that names an operator which touches files or other machines.

    Args:
        code: of one file of the archive.
        record: its name, for the error.

    Raises:
        ProgramError: what it calls, and where.
    """
    found = _CALLED.search(code)
    if found:
        raise _refuse_call(found.group(1) or found.group(2), record)
    for name in _FOREIGN.findall(code):
        if name not in _CALCULATE:
            raise _refuse_namespace(name, record)
    rest, looked = code, True
    while looked:  # the innermost first
        rest, looked = _without_getattr(rest, record)
    if _ANY_GETATTR.search(rest):
        raise _refuse_getattr("", record)


def _without_getattr(code: str, record: str) -> tuple[str, bool]:
    """The code with attributes that were looked at replaced by a name."""
    for found in _GETATTR.finditer(code):
        if found.group(1).isidentifier():
            raise _refuse_getattr(f" for {found.group(1)!r}", record)
    changed, count = _GETATTR.subn("_looked_at", code)
    return changed, bool(count)


def check_graphs(module: Any) -> None:
    """Refuse a loaded `ScriptModule` whose methods have operators that do more than calculate.

    Raises:
        ProgramError: which operator, and of which method.
    """
    for path, inner in module.named_modules():
        script: Any = getattr(inner, "_c", None)
        names = script._method_names() if script is not None else ()
        for name in names:
            where = f"{path}.{name}" if path else str(name)
            for kind in _kinds(script._get_method(name).inlined_graph):
                namespace, _, operator = kind.partition("::")
                if operator in _DENIED:
                    raise _refuse_call(operator, where)
                if namespace not in _CALCULATE:
                    raise _refuse_namespace(namespace, where)


def _kinds(block: Any) -> Iterator[str]:
    """Operators of a graph, of its blocks and of the graphs that its nodes hold."""
    for node in block.nodes():
        yield str(node.kind())
        for inner in node.blocks():
            yield from _kinds(inner)
        for attribute in node.attributeNames():
            if node.kindOf(attribute) == "g":
                yield from _kinds(node.g(attribute))


def _refuse_call(name: str, where: str) -> ProgramError:
    return ProgramError(
        f"the TorchScript calls {name!r} (in {where}), which can touch files or other machines; "
        "script the module without it",
        code="admission.unsafe_model",
    )


def _refuse_getattr(what: str, where: str) -> ProgramError:
    return ProgramError(
        f"the TorchScript uses getattr{what} (in {where}) otherwise than torch writes it, by which "
        "it could call what touches files; script the module without it",
        code="admission.unsafe_model",
    )


def _refuse_namespace(namespace: str, where: str) -> ProgramError:
    return ProgramError(
        f"the TorchScript has operators of {namespace!r} (in {where}), which aren't known to do "
        "nothing but calculate; script the module without them, or load it in a factory of yours, "
        "which may do anything",
        code="admission.unsafe_model",
    )
