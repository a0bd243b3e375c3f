"""The graphs of a model one by one, each with the constants that its nodes can see."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx


@dataclass(frozen=True)
class Scope:
    """The nodes of one graph, body or function.

    Attributes:
        nodes: in the order of the file.
        folder: where external data lie.
        constants: name -> tensor: initializers and what `Constant` nodes hold, outer ones too.
    """

    nodes: Sequence[onnx.NodeProto]
    folder: Path
    constants: MutableMapping[str, onnx.TensorProto]

    def constant(self, name: str) -> onnx.TensorProto | None:
        """The constant of a name; None where the value is calculated."""
        return self.constants.get(name) if name else None


def iter_scopes(model: onnx.ModelProto, folder: Path) -> Iterator[Scope]:
    """All graphs that inference can reach: the main one, bodies, functions.

    Args:
        model: a sound model.
        folder: where its external data lie.
    """
    pending: list[
        tuple[onnx.GraphProto | onnx.FunctionProto, Sequence[MutableMapping[str, onnx.TensorProto]]]
    ]
    pending = [(model.graph, ()), *((function, ()) for function in model.functions)]
    while pending:
        graph, outer = pending.pop()
        own: dict[str, onnx.TensorProto] = {}
        if isinstance(graph, onnx.GraphProto):
            own |= {tensor.name: tensor for tensor in graph.initializer}
        own |= {name: tensor for node in graph.node for name, tensor in _held(node)}
        maps = (own, *outer)
        yield Scope(graph.node, folder, ChainMap(*maps))
        for node in graph.node:
            for attribute in node.attribute:
                inner = [attribute.g] if attribute.HasField("g") else []
                pending += [(body, maps) for body in (*inner, *attribute.graphs)]


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
