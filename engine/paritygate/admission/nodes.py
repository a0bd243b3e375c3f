"""The nodes that a model is written with, each with the place that it stands in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

import onnx
from msgspec import Struct

from paritygate.admission.operators import Operator, Operators

Place = Literal["graph", "body", "function"]


class ModelNode(Struct, frozen=True):
    """One node as it stands in the file.

    Attributes:
        name: empty where it has none.
        op_type: of its operator.
        domain: of its operator; the default domain is empty.
        place: the main graph; a body of `If`, `Loop` or `Scan`; or a function of the model.
        function: name of the function that it stands in.
        is_call: it calls a function of the model.
        operator: what it is an instance of.
    """

    name: str
    op_type: str
    domain: str
    place: Place
    function: str = ""
    is_call: bool = False
    operator: Operator | None = None


def list_nodes(model: onnx.ModelProto) -> tuple[ModelNode, ...]:
    """All nodes that inference can reach: of the graph, of bodies, of functions."""
    calls = {(f.domain, f.name) for f in model.functions}
    found = list(_walk(model.graph.node, "graph", "", calls, Operators(model.opset_import)))
    for function in model.functions:
        known = Operators([*model.opset_import, *function.opset_import])
        found += _walk(function.node, "function", function.name, calls, known)
    return tuple(found)


def _walk(
    nodes: Iterable[onnx.NodeProto],
    place: Place,
    function: str,
    calls: set[tuple[str, str]],
    known: Operators,
) -> Iterator[ModelNode]:
    pending: list[tuple[Iterator[onnx.NodeProto], Place]] = [(iter(nodes), place)]
    while pending:
        node = next(pending[-1][0], None)
        if node is None:
            pending.pop()
            continue
        domain = "" if node.domain == "ai.onnx" else node.domain
        is_call = (node.domain, node.op_type) in calls
        where = pending[-1][1]
        yield ModelNode(
            node.name, node.op_type, domain, where, function, is_call, known.operator(node)
        )
        inner: Place = "function" if function else "body"
        for attribute in node.attribute:
            graphs = [attribute.g] if attribute.HasField("g") else []
            pending += [(iter(graph.node), inner) for graph in (*graphs, *attribute.graphs)]
