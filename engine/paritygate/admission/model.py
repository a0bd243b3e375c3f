"""Identity and description of an ONNX model, with all files that it consists of.

The model file alone doesn't identify a model: its weights may lie in other files. No tensor data
is loaded here, so that a model of many gigabytes is described in milliseconds and hashed in a
stream.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx

from paritygate.admission.errors import AdmissionError
from paritygate.core.digest import Watched, watch

_EXTERNAL = "admission.external_data"
STANDARD_DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.training", "ai.onnx.preview.training")


@dataclass(frozen=True)
class ExternalFile:
    """A file of external data: location relative to the model's folder, bytes, SHA-256 (hex)."""

    location: str
    bytes: int
    sha256: str
    watched: Watched


@dataclass(frozen=True)
class ModelIdentity:
    """What a model is.

    Attributes:
        path: of the model file.
        digest: SHA-256 (hex) over the model file and every external-data file.
        sha256: of the model file alone.
        bytes: of the model file alone.
        files: external data, sorted by location.
        model_file: the model file as it was before it was digested.
    """

    path: Path
    digest: str
    sha256: str
    bytes: int
    files: tuple[ExternalFile, ...]
    model_file: Watched

    @property
    def watched(self) -> tuple[Watched, ...]:
        """All of its files as they were before they were digested."""
        return (self.model_file, *(file.watched for file in self.files))


@dataclass(frozen=True)
class ModelFacts:
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
        """The same, of JSON types."""
        data = asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in data.items()}


def read_structure(path: Path) -> onnx.ModelProto:
    """Read a model without its external data.

    Raises:
        AdmissionError: it can't be read, or isn't ONNX.
    """
    try:
        return onnx.load(path, load_external_data=False)
    except OSError as e:
        raise AdmissionError(f"{path}: can't be read: {e.strerror or e}") from None
    except Exception as e:  # protobuf's own classes have no type information
        detail = str(e).splitlines()[0][:200] if str(e) else type(e).__name__
        raise AdmissionError(
            f"{path}: isn't an ONNX model ({detail}); export it again, or check the download"
        ) from None


def identify_model(path: Path, structure: onnx.ModelProto | None = None) -> ModelIdentity:
    """Digest a model file and every file of external data that it refers to.

    Args:
        path: the model file.
        structure: the same model as read by `read_structure`, where it is at hand.

    Raises:
        AdmissionError: the model can't be read (`admission.invalid_model`), or external data is
            missing, too short, or lies outside the model's folder (`admission.external_data`).
    """
    model = structure if structure is not None else read_structure(path)
    folder = Path(os.path.realpath(path.parent))
    needed: dict[str, tuple[Path, int]] = {}
    for tensor in iter_tensors(model):
        if tensor.data_location == onnx.TensorProto.EXTERNAL:
            location, end = _external_range(path, tensor)
            file = _inside(path, folder, tensor.name, location)
            needed[location] = (file, max(end, needed.get(location, (file, 0))[1]))
    files = tuple(_external_file(path, k, *needed[k]) for k in sorted(needed))
    sha256, size, watched = _hash(path, path)
    parts = [sha256, [[f.location, f.bytes, f.sha256] for f in files]]
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ModelIdentity(path, digest, sha256, size, files, watched)


def describe_model(path: Path, structure: onnx.ModelProto | None = None) -> ModelFacts:
    """What a model says of itself.

    Raises:
        AdmissionError: it can't be read, or isn't ONNX.
    """
    model = structure if structure is not None else read_structure(path)
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
        yield from _walk_nodes(nodes)


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


def _walk_nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
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


def _external_range(path: Path, tensor: onnx.TensorProto) -> tuple[str, int]:
    """Location, and the first byte after the tensor's data (0 where the model doesn't say)."""
    entries = {e.key: e.value for e in tensor.external_data}
    location = entries.get("location", "")
    try:
        offset, length = int(entries.get("offset") or 0), int(entries.get("length") or 0)
    except ValueError:
        offset = length = -1
    if not location or "\0" in location or offset < 0 or length < 0:
        raise AdmissionError(
            f"{path}: tensor {tensor.name!r} has external data without a usable location, offset "
            f"and length ({entries}); export the model again",
            _EXTERNAL,
        )
    return location, offset + length


def _inside(path: Path, folder: Path, tensor: str, location: str) -> Path:
    """The file of a location, proved to lie in the model's folder."""
    where = f"{path}: tensor {tensor!r} has external data at {location!r}, which"
    mend = "put the file beside the model (as a copy, not a link) and refer to it by its name"
    if Path(location).is_absolute():
        raise AdmissionError(f"{where} is absolute; {mend}", _EXTERNAL)
    lexical = Path(os.path.normpath(folder / location))
    if not lexical.is_relative_to(folder) or lexical == folder:
        raise AdmissionError(f"{where} is outside the model's folder; {mend}", _EXTERNAL)
    real = Path(os.path.realpath(folder / location))
    if not real.is_relative_to(folder):
        raise AdmissionError(f"{where} is a link out of the model's folder; {mend}", _EXTERNAL)
    if not real.exists():
        raise AdmissionError(f"{where} is missing; {mend}", _EXTERNAL)
    if not real.is_file():
        raise AdmissionError(f"{where} isn't a regular file; {mend}", _EXTERNAL)
    return real


def _external_file(path: Path, location: str, file: Path, end: int) -> ExternalFile:
    sha256, size, watched = _hash(path, file)
    if size < end:
        raise AdmissionError(
            f"{path}: external data {location!r} has {size} bytes but the model reads up to byte "
            f"{end}; the file is truncated or belongs to another model",
            _EXTERNAL,
        )
    return ExternalFile(location, size, sha256, watched)


def _hash(model: Path, file: Path) -> tuple[str, int, Watched]:
    try:
        with file.open("rb") as stream:
            watched = watch(file, stream.fileno())
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
            return digest, stream.tell(), watched
    except OSError as e:
        code = None if file == model else _EXTERNAL
        raise AdmissionError(f"{file}: can't be read: {e.strerror or e}", code) from None


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
