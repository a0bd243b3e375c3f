"""What an ONNX model is made of: operators, tensors, dims, and what its metadata ask for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import onnx

from paritygate.admission.concerns import Concern, counted, short, some
from paritygate.admission.model import iter_nodes, iter_tensors
from paritygate.admission.scopes import Scope
from paritygate.admission.values import count_bytes, count_elements, dtype_text, iter_bytes

MOST_LISTED = 200
_WIDEST = (1 << 63) - 1
_RANDOM = frozenset(
    {
        "Bernoulli",
        "Multinomial",
        "RandomNormal",
        "RandomNormalLike",
        "RandomUniform",
        "RandomUniformLike",
    }
)
_TRAINING_DOMAINS = ("ai.onnx.training", "ai.onnx.preview.training")
CONFIG_KEY = "ort_config"
_OPTION_PREFIXES = ("session.", "ep.", "optimization.", "mlas.")


def count_operators(model: onnx.ModelProto) -> list[dict[str, object]]:
    """Operators with how often the model is written with them, bodies and functions included."""
    counted = Counter((node.domain or "ai.onnx", node.op_type) for node in iter_nodes(model))
    listed = sorted(counted.items())[:MOST_LISTED]
    return [
        {"domain": short(domain), "op_type": short(op), "count": n} for (domain, op), n in listed
    ]


def count_tensors(model: onnx.ModelProto) -> dict[str, dict[str, int]]:
    """Tensors that hold data, initializers and attributes alike, by dtype: how many, how large."""
    found: dict[str, dict[str, int]] = {}
    for tensor in iter_tensors(model):
        told = found.setdefault(
            dtype_text(tensor), {"tensors": 0, "elements": 0, "bytes": 0, "external": 0}
        )
        told["tensors"] += 1
        told["elements"] = min(_WIDEST, told["elements"] + count_elements(tensor))
        told["bytes"] = min(_WIDEST, told["bytes"] + count_bytes(tensor))
        told["external"] += tensor.data_location == onnx.TensorProto.EXTERNAL
    return dict(sorted(found.items()))


def open_dims(model: onnx.ModelProto) -> dict[str, list[str]]:
    """Dims that the graph leaves open, by name (`?` without one), with the tensors they occur in.

    The tensors are `input NAME` and `output NAME`.
    """
    found: dict[str, list[str]] = {}
    for where, value in _values(model):
        for dim in value.type.tensor_type.shape.dim:
            if not dim.HasField("dim_value"):
                tensors = found.setdefault(short(dim.dim_param or "?"), [])
                told = f"{where} {short(value.name)}"
                if told not in tensors and len(tensors) < MOST_LISTED:
                    tensors.append(told)
    return dict(sorted(found.items())[:MOST_LISTED])


def note_fixed_batch(model: onnx.ModelProto) -> Iterator[str]:
    """A batch that every input fixes, under an output whose first dim is open."""
    weights = {tensor.name for tensor in model.graph.initializer}
    firsts = {value.name: _first(value) for value in model.graph.input if value.name not in weights}
    sizes = {first for first in firsts.values() if first is not None}
    if not sizes or not all(isinstance(size, int) for size in sizes):
        return
    opened = [v.name for v in model.graph.output if isinstance(_first(v), str)]
    if opened:
        told = ", ".join(f"{short(name)} {first}" for name, first in list(firsts.items())[:5])
        yield (
            f"the inputs fix the batch ({told}), but the first dim of output {some(opened)} is "
            "open: an export that traced one batch size, or an output whose size depends on the "
            "values? Batches of any other size are refused"
        )


def _first(value: onnx.ValueInfoProto) -> int | str | None:
    """The first dim of a tensor, `?` where it is open without a name; None where it has none."""
    if not value.type.tensor_type.HasField("shape") or not value.type.tensor_type.shape.dim:
        return None
    dim = value.type.tensor_type.shape.dim[0]
    return int(dim.dim_value) if dim.HasField("dim_value") else (dim.dim_param or "?")


def _values(model: onnx.ModelProto) -> Iterator[tuple[str, onnx.ValueInfoProto]]:
    weights = {tensor.name for tensor in model.graph.initializer}
    yield from (("input", v) for v in model.graph.input if v.name not in weights)
    yield from (("output", v) for v in model.graph.output)


def list_metadata(model: onnx.ModelProto) -> dict[str, str]:
    """`metadata_props`, bounded."""
    props = sorted(model.metadata_props, key=lambda p: p.key)[:MOST_LISTED]
    return {short(p.key): short(p.value, 300) for p in props}


def note_settings(model: onnx.ModelProto) -> Iterator[str]:
    """Metadata that would choose session options, if anybody asked them."""
    for prop in model.metadata_props:
        if prop.key == CONFIG_KEY:
            yield (
                f"metadata {CONFIG_KEY!r} ask for session options ({short(prop.value)}); they are "
                "not obeyed, since a plan alone chooses them. A program that sets "
                "ORT_LOAD_CONFIG_FROM_MODEL=1 would obey them"
            )
        elif prop.key.startswith(_OPTION_PREFIXES):
            yield (
                f"metadata {short(prop.key)!r} have the name of a session option; no runtime "
                "reads it"
            )


def note_randomness(model: onnx.ModelProto) -> Iterator[str]:
    """Operators that draw numbers anew in every run."""
    drawn = sorted({node.op_type for node in iter_nodes(model)} & _RANDOM)
    if drawn:
        yield f"{some(drawn)}: draws random numbers, so answers may differ from run to run"


def find_training(scopes: Iterable[Scope]) -> Iterator[Concern]:
    """Nodes that are in training mode for good: dropout that is on, statistics of the batch."""
    nodes: dict[int, onnx.NodeProto] = {}  # one of a function may be seen several times
    for scope in scopes:
        nodes |= {id(node): node for node in scope.nodes if _trains(node, scope)}
    found = [_label(node) for node in nodes.values()]
    if found:
        yield Concern(
            "admission.training_mode",
            f"{counted(len(found), 'node', 'is', 'are')} in training mode: {some(found)}; a "
            "dropout that is on draws anew in every run, a normalisation by the batch couples its "
            "samples",
            "export the model in evaluation mode: model.eval(), training=TrainingMode.EVAL",
        )


def _trains(node: onnx.NodeProto, scope: Scope) -> bool:
    if node.domain in _TRAINING_DOMAINS:
        return True
    if node.domain not in ("", "ai.onnx"):
        return False
    if node.op_type == "BatchNormalization":
        return any(a.name == "training_mode" and a.i == 1 for a in node.attribute)
    if node.op_type != "Dropout" or len(node.input) < 3 or _flag(scope, node.input[2]) is not True:
        return False
    return _flag(scope, node.input[1]) is not False


def _flag(scope: Scope, name: str) -> bool | None:
    """Whether a constant scalar is other than 0; None where it is no constant."""
    try:
        tensor = scope.constant(name)
        if tensor is None:
            return None
        return any(any(piece) for piece in iter_bytes(tensor, scope.folder))
    except OSError:
        return None


def _label(node: onnx.NodeProto) -> str:
    return f"{node.op_type} {node.name!r}" if node.name else node.op_type


def list_functions(names: Sequence[str]) -> list[str]:
    """Functions that a model brings along, bounded."""
    return [short(name) for name in names[:MOST_LISTED]]
