"""Operators as instances tell them apart: domain, name, version, attributes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import onnx
from msgspec import Struct

from paritygate.admission.concerns import short
from paritygate.admission.values import dtype_text

_LONGEST = 200


class Operator(Struct, frozen=True, order=True):
    """An operator with the attributes that it has somewhere.

    Attributes:
        domain: `ai.onnx` for the default one.
        op_type: its name.
        since_version: version of its definition; of one that onnx doesn't know, of its opset.
        attributes: as a person reads them; of tensors dtype and dims, of bodies the name alone.
        digest: SHA-256 of the attributes, 12 hex digits.
    """

    domain: str
    op_type: str
    since_version: int
    attributes: str
    digest: str

    def to_json(self) -> dict[str, object]:
        """The same, of JSON types."""
        return {
            "domain": short(self.domain),
            "op_type": short(self.op_type),
            "since_version": self.since_version,
            "attributes": self.attributes,
            "attributes_digest": self.digest,
        }


class Operators:
    """The operators of one graph or function, each made once.

    Args:
        imports: its opsets; of two of one domain the last one counts.
    """

    def __init__(self, imports: Iterable[onnx.OperatorSetIdProto]) -> None:
        self._versions = {o.domain or "ai.onnx": o.version for o in imports}
        self._since: dict[tuple[str, str], int] = {}
        self._known: dict[tuple[str, str, str], Operator] = {}

    def operator(self, node: onnx.NodeProto) -> Operator:
        """What a node is an instance of."""
        domain = node.domain or "ai.onnx"
        told = ", ".join(sorted(_text(attribute) for attribute in node.attribute))
        key = (domain, node.op_type, told)
        if key not in self._known:
            digest = hashlib.sha256(told.encode(errors="surrogateescape")).hexdigest()[:12]
            since = self._version(domain, node.op_type)
            self._known[key] = Operator(*key[:2], since, short(told, _LONGEST), digest)
        return self._known[key]

    def _version(self, domain: str, op_type: str) -> int:
        if (domain, op_type) not in self._since:
            version = self._versions.get(domain, 1)
            try:
                own = "" if domain == "ai.onnx" else domain
                version = onnx.defs.get_schema(op_type, version, own).since_version
            except (onnx.defs.SchemaError, TypeError, OverflowError):
                pass
            self._since[domain, op_type] = int(version)
        return self._since[domain, op_type]


def _text(attribute: onnx.AttributeProto) -> str:
    """An attribute in full, but for tensors and bodies."""
    a, kinds = attribute, onnx.AttributeProto
    if a.ref_attr_name:
        return f"{a.name} = {a.ref_attr_name} of the function"
    if a.type in (kinds.TENSOR, kinds.TENSORS):
        tensors = [a.t] if a.type == kinds.TENSOR else list(a.tensors)
        told = [f"{dtype_text(t)}{list(t.dims)}" for t in tensors]
        return f"{a.name} = {', '.join(told)}"
    if a.type in (kinds.GRAPH, kinds.GRAPHS):
        return a.name
    value = {
        kinds.FLOAT: lambda: repr(a.f),
        kinds.INT: lambda: repr(a.i),
        kinds.STRING: lambda: repr(a.s.decode(errors="replace")),
        kinds.FLOATS: lambda: repr(list(a.floats)),
        kinds.INTS: lambda: repr(list(a.ints)),
        kinds.STRINGS: lambda: repr([s.decode(errors="replace") for s in a.strings]),
    }.get(a.type)
    if value is None:
        return f"{a.name} = {hashlib.sha256(a.SerializeToString()).hexdigest()[:12]}"
    return f"{a.name} = {value()}"
