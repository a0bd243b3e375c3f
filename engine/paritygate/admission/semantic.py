"""A digest of what an ONNX graph calculates, which survives re-packaging.

Nodes are numbered in the order in which the outputs need them, so that neither names of values nor
the order of nodes and initializers count. What is named from outside counts: inputs, outputs,
operators, attributes, functions. What nothing follows from doesn't.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
from msgspec import Struct, field

from paritygate.admission.errors import AdmissionError
from paritygate.admission.model import iter_nodes, walk_nodes
from paritygate.admission.values import iter_bytes

VERSION = 1

# Where a value comes from: the kind, then what it is of that kind.
_Ref = list[Any]


class GraphDigest(Struct, frozen=True):
    """What a model calculates.

    Attributes:
        graph: SHA-256 (hex) of graph and functions, without the versions of their opsets.
        opsets: domain -> version, of the domains that nodes are of.
    """

    graph: str
    opsets: dict[str, int]

    @property
    def semantic(self) -> str:
        """SHA-256 (hex) of both."""
        return _digest(["model", VERSION, self.graph, sorted(self.opsets.items())])


def digest_graph(model: onnx.ModelProto, folder: Path) -> str:
    """SHA-256 (hex) of what a model calculates, without the versions of its opsets.

    Args:
        model: one that has passed `onnx.checker`.
        folder: where its external data lie; they are read a piece at a time.

    Raises:
        AdmissionError: a graph that isn't acyclic, or data that can't be read.
    """
    tensors = _Tensors(folder)
    try:
        main = _Graph(tensors, model.graph, is_main=True)
        functions = _functions(tensors, model)
        return _digest(["graph", VERSION, main.record(), main.unbound, functions])
    except OSError as e:
        raise AdmissionError(f"external data can't be read: {e}") from None


def used_opsets(model: onnx.ModelProto) -> dict[str, int]:
    """The opsets of the domains that nodes are of; functions' own ones as `FUNCTION:DOMAIN`."""
    domains = {_domain(node.domain) for node in iter_nodes(model)}
    found = {
        _domain(o.domain): o.version for o in model.opset_import if _domain(o.domain) in domains
    }
    for function in model.functions:
        own = {_domain(node.domain) for node in function.node}
        for o in function.opset_import:
            if _domain(o.domain) in own:
                found[f"{function.domain}.{function.name}:{_domain(o.domain)}"] = o.version
    return found


class _Tensors(Struct):
    """Digests of tensors, each made once."""

    folder: Path
    known: dict[int, tuple[onnx.TensorProto, str]] = field(default_factory=dict)

    def digest(self, tensor: onnx.TensorProto) -> str:
        """Of dtype, dims and elements, wherever they are stored."""
        if id(tensor) not in self.known:
            made = hashlib.sha256(_json(["tensor", tensor.data_type, list(tensor.dims)]))
            for piece in iter_bytes(tensor, self.folder):
                made.update(piece)
            self.known[id(tensor)] = tensor, made.hexdigest()
        return self.known[id(tensor)][1]

    def sparse(self, tensor: onnx.SparseTensorProto) -> list[Any]:
        """The same of a sparse one."""
        return [list(tensor.dims), self.digest(tensor.values), self.digest(tensor.indices)]


class _Graph:
    """One graph, body or function.

    Attributes:
        unbound: names of outer values, in the order in which they are needed.
    """

    def __init__(
        self,
        tensors: _Tensors,
        graph: onnx.GraphProto | onnx.FunctionProto,
        *,
        is_main: bool = False,
    ) -> None:
        self._tensors = tensors
        self._graph = graph
        self._is_main = is_main
        self.unbound: list[str] = []
        self._unbound_at: dict[str, int] = {}
        self._producers = {
            name: (index, place)
            for index, node in enumerate(graph.node)
            for place, name in enumerate(node.output)
            if name
        }
        self._inputs = _input_names(graph)
        self._held: dict[str, Callable[[], _Ref]] = {}
        if isinstance(graph, onnx.GraphProto):
            self._held = {t.name: _lazily(self._dense, t) for t in graph.initializer}
            self._held |= {
                t.values.name: _lazily(self._sparse, t) for t in graph.sparse_initializer
            }
        self._numbers: dict[int, int] = {}
        self._bodies: dict[int, list[tuple[str, _Graph]]] = {}
        self._records: list[str] = []

    def record(self) -> list[Any]:
        """All that is digested of it."""
        names = _output_names(self._graph)
        for name in names:
            self._number(name)
        outputs = [self._ref(name) for name in names]
        return [self._interface(), outputs, self._records]

    def _interface(self) -> list[Any]:
        """Inputs and outputs: of the main graph by name, elsewhere by place."""
        graph, dims = self._graph, _Dims()
        if isinstance(graph, onnx.FunctionProto):
            defaults = sorted((a.name, self._attribute(a)) for a in graph.attribute_proto)
            return [len(graph.input), list(graph.attribute), defaults]
        inputs = [v for v in graph.input if not (self._is_main and v.name in self._held)]
        optional = [
            [v.name, self._held[v.name]()]
            for v in graph.input
            if self._is_main and v.name in self._held
        ]
        name = (lambda v: v.name) if self._is_main else (lambda _: "")
        told = [[name(v), dims.of(v.type) if self._is_main else []] for v in inputs]
        gives = [[name(v), dims.of(v.type) if self._is_main else []] for v in graph.output]
        return [told, gives, sorted(optional, key=lambda pair: str(pair[0]))]

    def _number(self, name: str) -> None:
        """Number the nodes that a value needs, those first that others need."""
        pending: list[tuple[int, Iterator[str]]] = []
        self._enter(name, pending, set())
        open_nodes = {index for index, _ in pending}
        while pending:
            index, needed = pending[-1]
            following = next(needed, None)
            if following is not None:
                self._enter(following, pending, open_nodes)
                continue
            pending.pop()
            open_nodes.discard(index)
            record = _json(self._node(index)).decode()
            self._numbers[index] = len(self._records)
            self._records.append(hashlib.sha256(record.encode()).hexdigest())

    def _enter(
        self, name: str, pending: list[tuple[int, Iterator[str]]], open_nodes: set[int]
    ) -> None:
        found = self._producers.get(name)
        if found is None or found[0] in self._numbers:
            return
        if found[0] in open_nodes:
            raise AdmissionError(f"the graph has a cycle at the value {name[:100]!r}")
        open_nodes.add(found[0])
        pending.append((found[0], iter(self._needs(found[0]))))

    def _needs(self, index: int) -> list[str]:
        """Values that a node reads, those that its bodies take from outside included."""
        node = self._graph.node[index]
        bodies = []
        for attribute in sorted(node.attribute, key=lambda a: a.name):
            inner = [attribute.g] if attribute.HasField("g") else []
            for graph in (*inner, *attribute.graphs):
                body = _Graph(self._tensors, graph)
                bodies.append((_digest(body.record()), body))
        self._bodies[index] = bodies
        outer = [name for _, body in bodies for name in body.unbound]
        return [name for name in (*node.input, *outer) if name]

    def _node(self, index: int) -> list[Any]:
        node = self._graph.node[index]
        inputs = list(node.input)
        while inputs and not inputs[-1]:
            inputs.pop()
        outputs = [bool(name) for name in node.output]
        while outputs and not outputs[-1]:
            outputs.pop()
        attributes = sorted((a.name, self._attribute(a)) for a in node.attribute if not _is_body(a))
        bodies = [
            [digest, [self._ref(name) for name in body.unbound]]
            for digest, body in self._bodies.pop(index, ())
        ]
        names = sorted(a.name for a in node.attribute if _is_body(a))
        return [
            *(_domain(node.domain), node.op_type, node.overload),
            *(attributes, names, bodies),
            [self._ref(name) if name else [] for name in inputs],
            outputs,
        ]

    def _ref(self, name: str) -> _Ref:
        found = self._producers.get(name)
        if found is not None:
            return ["node", self._numbers[found[0]], found[1]]
        if name in self._inputs:
            return ["input", name if self._is_main else self._inputs[name]]
        if name in self._held:
            return self._held[name]()
        if name not in self._unbound_at:
            self._unbound_at[name] = len(self.unbound)
            self.unbound.append(name)
        return ["outer", self._unbound_at[name]]

    def _dense(self, tensor: onnx.TensorProto) -> _Ref:
        return ["tensor", self._tensors.digest(tensor)]

    def _sparse(self, tensor: onnx.SparseTensorProto) -> _Ref:
        return ["sparse", *self._tensors.sparse(tensor)]

    def _attribute(self, attribute: onnx.AttributeProto) -> str:
        """An attribute without its name, as text; numbers by their bits."""
        a, kinds = attribute, onnx.AttributeProto
        value: Any
        if a.ref_attr_name:
            value = ["of the function", a.ref_attr_name]
        elif a.type in (kinds.FLOAT, kinds.FLOATS):
            floats = [a.f] if a.type == kinds.FLOAT else list(a.floats)
            value = struct.pack(f"<{len(floats)}f", *floats).hex()
        elif a.type in (kinds.INT, kinds.INTS):
            value = [a.i] if a.type == kinds.INT else list(a.ints)
        elif a.type in (kinds.STRING, kinds.STRINGS):
            value = [t.hex() for t in ([a.s] if a.type == kinds.STRING else a.strings)]
        elif a.type in (kinds.TENSOR, kinds.TENSORS):
            tensors = [a.t] if a.type == kinds.TENSOR else list(a.tensors)
            value = [self._tensors.digest(t) for t in tensors]
        elif a.type in (kinds.SPARSE_TENSOR, kinds.SPARSE_TENSORS):
            sparse = [a.sparse_tensor] if a.type == kinds.SPARSE_TENSOR else list(a.sparse_tensors)
            value = [self._tensors.sparse(t) for t in sparse]
        else:
            value = a.SerializeToString(deterministic=True).hex()
        return _json([a.type, value]).decode()


class _Dims:
    """Types of inputs and outputs; symbolic dims by the order in which they first occur."""

    def __init__(self) -> None:
        self._seen: dict[str, int] = {}

    def of(self, kind: onnx.TypeProto) -> list[Any]:
        """A type as lists; of others than tensors their bytes."""
        which = kind.WhichOneof("value")
        if which != "tensor_type":
            return [str(which), kind.SerializeToString(deterministic=True).hex()]
        tensor = kind.tensor_type
        if not tensor.HasField("shape"):
            return ["tensor", tensor.elem_type]
        return ["tensor", tensor.elem_type, [self._dim(d) for d in tensor.shape.dim]]

    def _dim(self, dim: onnx.TensorShapeProto.Dimension) -> list[Any]:
        if dim.HasField("dim_value"):
            return ["size", dim.dim_value]
        if not dim.dim_param:
            return ["open"]
        return ["symbol", self._seen.setdefault(dim.dim_param, len(self._seen))]


def _functions(tensors: _Tensors, model: onnx.ModelProto) -> list[Any]:
    """The functions that the graph reaches, by name."""
    by_name = {(f.domain, f.name, f.overload): f for f in model.functions}
    reached: dict[tuple[str, str, str], list[Any]] = {}
    pending = [_calls(walk_nodes(model.graph.node), by_name)]
    while pending:
        for key in pending.pop():
            if key not in reached:
                graph = _Graph(tensors, by_name[key])
                reached[key] = [*key, graph.record(), graph.unbound]
                pending.append(_calls(walk_nodes(by_name[key].node), by_name))
    return [reached[key] for key in sorted(reached)]


def _calls(
    nodes: Iterable[onnx.NodeProto], by_name: dict[tuple[str, str, str], onnx.FunctionProto]
) -> list[tuple[str, str, str]]:
    called = dict.fromkeys((n.domain, n.op_type, n.overload) for n in nodes)
    return [key for key in called if key in by_name]


def _input_names(graph: onnx.GraphProto | onnx.FunctionProto) -> dict[str, int]:
    names: Sequence[str]
    if isinstance(graph, onnx.FunctionProto):
        names = list(graph.input)
    else:
        names = [value.name for value in graph.input]
    return {name: place for place, name in enumerate(names)}


def _output_names(graph: onnx.GraphProto | onnx.FunctionProto) -> list[str]:
    if isinstance(graph, onnx.FunctionProto):
        return list(graph.output)
    return [value.name for value in graph.output]


def _is_body(attribute: onnx.AttributeProto) -> bool:
    return attribute.HasField("g") or len(attribute.graphs) > 0


def _lazily(make: Callable[[Any], _Ref], tensor: Any) -> Callable[[], _Ref]:
    return lambda: make(tensor)


def _domain(domain: str) -> str:
    return domain or "ai.onnx"


def _digest(value: object) -> str:
    return hashlib.sha256(_json(value)).hexdigest()


def _json(value: object) -> bytes:
    """One text of a value; names that aren't UTF-8 can't occur in protobuf."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
