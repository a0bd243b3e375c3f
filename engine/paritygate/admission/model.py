"""What an ONNX model says of itself; no external data is loaded for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import onnx
from msgspec import Struct
from msgspec.structs import asdict

from paritygate.admission.concerns import short
from paritygate.admission.errors import AdmissionError
from paritygate.admission.texts import check_texts

STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")
_LONGEST, _MOST = 1_000, 1_000


class ModelFacts(Struct, frozen=True):
    """What a model says of itself.

    Attributes:
        ir_version: of the file format.
        opsets: domain -> version; the default domain is `ai.onnx`.
        producer: name and version of what wrote it.
        model_version: as the producer counts.
        graph: the graph's name.
        metadata: `metadata_props`.
        custom_domains: domains of nodes outside the standard.
        functions: names of functions that the model brings along.
        inputs: name -> type and dims, such as `float32[batch, 4]`; initializers left out.
        outputs: the same.
    """

    ir_version: int
    opsets: Mapping[str, int]
    producer: str
    model_version: int
    graph: str
    metadata: Mapping[str, str]
    custom_domains: tuple[str, ...]
    functions: tuple[str, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    def to_json(self) -> dict[str, object]:
        """The same, of JSON types and bounded: a name may have megabytes."""
        return {key: _bounded(value) for key, value in asdict(self).items()}


def _bounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        some = list(value.items())[:_MOST]
        return {short(key, _LONGEST): _bounded(inner) for key, inner in some}
    if isinstance(value, tuple):
        return [short(item, _LONGEST) for item in value[:_MOST]]
    return short(value, _LONGEST) if isinstance(value, str) else value


def read_structure(path: Path, shown: Path) -> onnx.ModelProto:
    """Read a model without its external data.

    Args:
        path: the file.
        shown: its name in messages.

    Raises:
        AdmissionError: it can't be read, isn't ONNX, or has names that aren't UTF-8.
    """
    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as e:
        raise AdmissionError(f"{shown}: can't be read: {e.strerror or e}") from None
    except Exception as e:  # protobuf's own classes have no type information
        detail = str(e).splitlines()[0][:200] if str(e) else type(e).__name__
        raise AdmissionError(
            f"{shown}: isn't an ONNX model ({detail}); export it again, or check the download"
        ) from None
    check_texts(model, shown)
    return model


def describe_model(model: onnx.ModelProto) -> ModelFacts:
    """What a model says of itself."""
    weights = {t.name for t in model.graph.initializer}
    weights |= {t.values.name for t in model.graph.sparse_initializer}
    domains = {n.domain for n in iter_nodes(model)} - set(STANDARD_DOMAINS)
    return ModelFacts(
        ir_version=model.ir_version,
        opsets={o.domain or "ai.onnx": o.version for o in model.opset_import},
        producer=f"{model.producer_name} {model.producer_version}".strip(),
        model_version=model.model_version,
        graph=model.graph.name,
        metadata={p.key: p.value for p in sorted(model.metadata_props, key=lambda p: p.key)},
        custom_domains=tuple(sorted(domains)),
        functions=tuple(sorted(f"{f.domain}:{f.name}" for f in model.functions)),
        inputs={v.name: _type_text(v.type) for v in model.graph.input if v.name not in weights},
        outputs={v.name: _type_text(v.type) for v in model.graph.output},
    )


def iter_nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """All nodes: of the graph, its subgraphs, functions and training graphs."""
    for nodes in _node_lists(model):
        yield from walk_nodes(nodes)


def iter_tensors(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """All tensors that hold data: initializers (sparse too) and attributes, at any depth."""
    for graph in _graphs(model):
        yield from _graph_tensors(graph)
    for node in iter_nodes(model):
        for attribute in node.attribute:
            yield from _attribute_tensors(attribute)
    for function in model.functions:
        for attribute in function.attribute_proto:
            yield from _attribute_tensors(attribute)


def _graphs(model: onnx.ModelProto) -> Iterator[onnx.GraphProto]:
    yield model.graph
    for info in model.training_info:
        yield info.initialization
        yield info.algorithm


def _node_lists(model: onnx.ModelProto) -> Iterator[Iterable[onnx.NodeProto]]:
    for graph in _graphs(model):
        yield graph.node
    for function in model.functions:
        yield function.node


def walk_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    """Nodes with those of their subgraphs, however deep, each before its own."""
    pending = [iter(nodes)]
    while pending:
        node = next(pending[-1], None)
        if node is None:
            pending.pop()
            continue
        yield node
        for attribute in node.attribute:
            pending += [iter(graph.node) for graph in _subgraphs(attribute)]


def _subgraphs(attribute: onnx.AttributeProto) -> list[onnx.GraphProto]:
    return ([attribute.g] if attribute.HasField("g") else []) + list(attribute.graphs)


def _graph_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices


def _attribute_tensors(attribute: onnx.AttributeProto) -> Iterator[onnx.TensorProto]:
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    sparse = list(attribute.sparse_tensors)
    if attribute.HasField("sparse_tensor"):
        sparse.append(attribute.sparse_tensor)
    for tensor in sparse:
        yield tensor.values
        yield tensor.indices
    for graph in _subgraphs(attribute):
        yield from _graph_tensors(graph)


def _type_text(kind: onnx.TypeProto) -> str:
    which = kind.WhichOneof("value")
    if which is None:
        return "unknown"
    value: Any = getattr(kind, which)
    if which == "opaque_type":
        return "opaque"
    if which not in ("tensor_type", "sparse_tensor_type"):
        inner = value.elem_type if which != "map_type" else value.value_type
        return f"{which.removesuffix('_type')}({_type_text(inner)})"
    dims = ""
    if value.HasField("shape"):
        dims = ", ".join(_dim_text(d) for d in value.shape.dim)
    prefix = "sparse " if which == "sparse_tensor_type" else ""
    shape = f"[{dims}]" if value.HasField("shape") else "[...]"
    return f"{prefix}{_element_text(value.elem_type)}{shape}"


def _dim_text(dim: onnx.TensorShapeProto.Dimension) -> str:
    return str(dim.dim_value) if dim.HasField("dim_value") else (dim.dim_param or "?")


def _element_text(element: int) -> str:
    names = {"FLOAT": "float32", "DOUBLE": "float64"}
    name = onnx.TensorProto.DataType.Name(element) if element in _ELEMENTS else str(element)
    return names.get(name, name.lower())


_ELEMENTS = frozenset(onnx.TensorProto.DataType.values())
