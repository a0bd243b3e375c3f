"""The graphs of a model one by one, each with the constants that its nodes can see."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec import Struct, field

from paritygate.admission.constants import Budget, Constant, iter_made, resolve

# Nodes that are looked at anew because of what calls of functions give them.
MOST_REPEATED = 1 << 17
_Seen = MutableMapping[str, Constant]
_Maps = tuple[_Seen, ...]
_Graph = onnx.GraphProto | onnx.FunctionProto


class Scope(Struct, frozen=True):
    """The nodes of one graph, body or function.

    Attributes:
        nodes: in the order of the file.
        folder: where external data lie.
        constants: name -> value: initializers, what `Constant` nodes hold, what calls give to
            functions, what nodes make of these; outer ones too.
        dims: name of an input of the model -> its dims, None where one is open.
    """

    nodes: Sequence[onnx.NodeProto]
    folder: Path
    constants: Mapping[str, Constant]
    dims: Mapping[str, Sequence[int | None]] = field(default_factory=dict)

    def constant(self, name: str) -> onnx.TensorProto | None:
        """The constant of a name; None where the value is calculated.

        Raises:
            OSError: external data can't be read.
        """
        return resolve(self.constants.get(name)) if name else None

    def stored(self, name: str) -> onnx.TensorProto | None:
        """The tensor that the file holds under a name, and not what a node makes of one."""
        value = self.constants.get(name) if name else None
        return value if isinstance(value, onnx.TensorProto) else None

    def dims_of(self, name: str) -> Sequence[int | None] | None:
        """Dims of a constant as it is stored, or as they are declared; None: unknown."""
        value = self.stored(name)
        return list(value.dims) if value is not None else self.dims.get(name)


def iter_scopes(model: onnx.ModelProto, folder: Path) -> Iterator[Scope]:
    """All graphs that inference can reach: the main one, bodies, functions.

    A function comes once by itself, and once for each choice of constants that calls give it, as
    long as these are no more than `MOST_REPEATED` nodes in all.

    Args:
        model: a sound model.
        folder: where its external data lie.
    """
    calls, budget = _Calls(model), Budget()
    fed = _declared(model.graph)
    pending: list[tuple[_Graph, _Maps, Mapping[str, Sequence[int | None]]]] = [
        (model.graph, (), fed),
        *((function, (), {}) for function in model.functions),
    ]
    while pending:
        graph, outer, dims = pending.pop()
        maps = (_own(graph, outer, folder, budget), *outer)
        scope = Scope(graph.node, folder, ChainMap(*maps), dims)
        yield scope
        for node in graph.node:
            pending += [(function, (given,), {}) for function, given in calls.of(node, scope)]
            for attribute in node.attribute:
                inner = [attribute.g] if attribute.HasField("g") else []
                pending += [(body, maps, dims) for body in (*inner, *attribute.graphs)]


def _own(graph: _Graph, outer: _Maps, folder: Path, budget: Budget) -> _Seen:
    own: dict[str, Constant] = {}
    if isinstance(graph, onnx.GraphProto):
        own |= {tensor.name: tensor for tensor in graph.initializer}
    seen = ChainMap(own, *outer)
    for node in graph.node:
        own.update(_held(node))
        own.update(iter_made(node, seen, folder, budget))
    return own


def _declared(graph: onnx.GraphProto) -> dict[str, Sequence[int | None]]:
    """Dims of the graph's inputs, which a runtime holds whoever feeds them to."""
    return {
        value.name: [
            dim.dim_value if dim.HasField("dim_value") else None
            for dim in value.type.tensor_type.shape.dim
        ]
        for value in graph.input
        if value.type.tensor_type.HasField("shape")
    }


class _Calls:
    """Calls of the model's own functions, each choice of constants once."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._functions = {(f.domain, f.name): f for f in model.functions}
        self._known: dict[tuple[object, ...], object] = {}
        self._left = MOST_REPEATED

    def of(
        self, node: onnx.NodeProto, scope: Scope
    ) -> Iterator[tuple[onnx.FunctionProto, dict[str, Constant]]]:
        """The function that a node calls, with the constants that it gives it."""
        function = self._functions.get((node.domain, node.op_type))
        if function is None:
            return
        pairs = zip(function.input, node.input, strict=False)
        given = {ours: scope.constants[name] for ours, name in pairs if name in scope.constants}
        choice = (id(function), *sorted((name, id(value)) for name, value in given.items()))
        if not given or choice in self._known or len(function.node) > self._left:
            return
        self._left -= max(1, len(function.node))
        self._known[choice] = given  # keeps what the ids belong to
        yield function, given


def _held(node: onnx.NodeProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """What a `Constant` node holds, numbers alone."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or not node.output:
        return
    for attribute in node.attribute:
        made = _MADE.get(attribute.name)
        if attribute.name == "value":
            yield node.output[0], attribute.t
        elif made is not None:
            array = made(attribute)
            yield node.output[0], onnx.numpy_helper.from_array(array, node.output[0])


_MADE: dict[str, Callable[[onnx.AttributeProto], np.ndarray[Any, Any]]] = {
    "value_float": lambda a: np.asarray(a.f, np.float32),
    "value_floats": lambda a: np.asarray(a.floats, np.float32),
    "value_int": lambda a: np.asarray(a.i, np.int64),
    "value_ints": lambda a: np.asarray(a.ints, np.int64),
}
