"""Test data as ONNX keeps it: `test_data_set_N` folders of protobuf files, and `config.txt`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct

from paritygate.core.dtypes import DTYPES, dtype_name
from paritygate.core.errors import GoldenError
from paritygate.core.tensors import Array
from paritygate.core.text import clean
from paritygate.golden.bounds import check_regular, read_whole
from paritygate.golden.evidence import SYNTHETIC
from paritygate.golden.source import cannot_open

_SET = re.compile(r"test_data_set_(\d+)")
_EVIDENCE = "synthetic.txt"
_FILE = re.compile(r"(input|output)_(\d+)\.pb")
_KEYS = {"per_sample_tolerance": "atol", "relative_per_sample_tolerance": "rtol"}

_MOST_BYTES = 1 << 31  # of a message of protobuf
_WIDEST = 16  # bytes of an element

Tensors = dict[str, Array]


class Names(Struct, frozen=True):
    """Inputs and outputs of a model by number: their names, and "tensor", "sequence", "optional".

    Empty: names are those that the files say, and what looks like a sequence is one.
    """

    inputs: tuple[tuple[str, str], ...] = ()
    outputs: tuple[tuple[str, str], ...] = ()


def find_sets(folder: Path) -> list[Path]:
    """The `test_data_set_N` folders of a folder by number; the folder itself where it is one.

    Raises:
        GoldenError: there is none.
    """
    if _SET.fullmatch(folder.name) and folder.is_dir():
        return [folder]
    found = {int(m[1]): p for p in folder.glob("test_data_set_*") if (m := _SET.fullmatch(p.name))}
    if not found:
        told = f"{folder}: has no folder test_data_set_0; name the folder that holds them"
        raise GoldenError(told, "golden.no_match")
    return [found[number] for number in sorted(found)]


def read_set(folder: Path, names: Names) -> Tensors:
    """All tensors of one folder, as `in.NAME` and `out.NAME`.

    The items of a sequence `s` are `s.0`, `s.1`; an optional value is what is in it.

    Raises:
        GoldenError: a file that holds no tensor, sequence or optional value; none at all.
    """
    files = sorted(
        (m[1], int(m[2]), p) for p in folder.glob("*.pb") if (m := _FILE.fullmatch(p.name))
    )
    if not files:
        told = f"{folder}: has no input_0.pb and no output_0.pb"
        raise GoldenError(told, "golden.no_match")
    found: Tensors = {}
    for kind, number, path in files:
        known = names.inputs if kind == "input" else names.outputs
        name, holds = known[number] if number < len(known) else ("", "")
        for own, array in _read(path, name or f"{kind}_{number}", holds):
            column = f"{'in' if kind == 'input' else 'out'}.{own}"
            if column in found:
                raise GoldenError(f"{path}: {own!r} is there twice", "golden.schema")
            found[column] = array
    return found


def write_set(
    folder: Path,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    is_synthetic: bool = False,
) -> None:
    """Write one folder; each tensor with its name in it."""
    from onnx import numpy_helper

    folder.mkdir()
    if is_synthetic:
        (folder / _EVIDENCE).write_text(f"{SYNTHETIC}\n")
    for kind, tensors in (("input", inputs), ("output", outputs)):
        for number, (name, array) in enumerate(tensors.items()):
            proto = numpy_helper.from_array(np.ascontiguousarray(array), name)
            (folder / f"{kind}_{number}.pb").write_bytes(proto.SerializeToString())


def is_synthetic_set(folder: Path) -> bool:
    """Whether a folder says that its data are no acceptance evidence.

    Raises:
        GoldenError: `golden.value`, it says something else.
    """
    path = folder / _EVIDENCE
    if not path.is_file():
        return False
    with path.open("rb") as file:
        said = file.read(64).strip().decode(errors="replace")
    if said != SYNTHETIC:
        told = f"{path}: says {clean(said)!r}; it says {SYNTHETIC!r}, or isn't there"
        raise GoldenError(told, "golden.value")
    return True


def model_names(path: Path) -> Names:
    """Names of a model's inputs and outputs in their order, without initializers.

    Raises:
        GoldenError: it can't be read.
    """
    inputs, outputs = graph_values(path)
    return Names(
        tuple((value.name, _kind(value)) for value in inputs),
        tuple((value.name, _kind(value)) for value in outputs),
    )


def model_dims(path: Path) -> dict[str, tuple[str | None, ...]]:
    """Names of the dims of a model's tensors; None where a dim has none.

    Raises:
        GoldenError: it can't be read.
    """
    inputs, outputs = graph_values(path)
    return {
        value.name: tuple(dim.dim_param or None for dim in value.type.tensor_type.shape.dim)
        for value in [*inputs, *outputs]
        if value.type.HasField("tensor_type")
    }


def model_outputs(path: Path) -> dict[str, tuple[str, tuple[int | str | None, ...]]]:
    """A model's outputs that are tensors: dtype, and the size, name or nothing of each dim.

    Raises:
        GoldenError: it can't be read.
    """
    found = {}
    for value in graph_values(path)[1]:
        tensor = value.type.tensor_type
        if value.type.HasField("tensor_type") and tensor.HasField("shape"):
            dims = tuple(
                dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None
                for dim in tensor.shape.dim
            )
            found[value.name] = (element_name(tensor.elem_type), dims)
    return found


def element_name(element: int) -> str:
    """A dtype's name, of an element type of ONNX; empty where it is none that is judged."""
    import onnx

    if element == onnx.TensorProto.STRING:
        return "string"
    try:
        name = dtype_name(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element)))
    except KeyError:
        return ""
    return name if name in DTYPES else ""


def graph_values(path: Path) -> tuple[list[Any], list[Any]]:
    """A model's inputs but its initializers, and its outputs, as the file has them.

    Raises:
        GoldenError: it can't be read.
    """
    import onnx

    check_regular(path)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except OSError as error:
        raise cannot_open(path, error) from error
    except Exception as error:  # protobuf has errors of its own
        raise GoldenError(f"{path}: is no ONNX model ({error})", "golden.format") from error
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    return inputs, list(model.graph.output)


def _kind(value: Any) -> str:
    return str(value.type.WhichOneof("value") or "").removesuffix("_type")


def read_tolerances(folder: Path) -> dict[str, float]:
    """`atol` and `rtol` of `config.txt` beside the test data; empty where it says none.

    Raises:
        GoldenError: a tolerance that is no number.
    """
    path = folder / "config.txt"
    if not path.is_file():
        return {}
    found = {}
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in _KEYS:
            try:
                found[_KEYS[key.strip()]] = float(value)
            except ValueError:
                told = f"{path}: {key.strip()} is {value.strip()!r}, which is no number"
                raise GoldenError(told, "golden.value") from None
    return found


def _read(path: Path, name: str, holds: str) -> Iterator[tuple[str, Array]]:
    """What a file holds; which of three messages it is, the file doesn't say.

    Args:
        path: the file.
        name: of a model's input or output, or what to call it if the file has no name.
        holds: what a model says that it is; "": try one after another.
    """
    import onnx

    data, problem = read_whole(path, _MOST_BYTES), ""
    for said, kind, take in (
        ("tensor", onnx.TensorProto, _tensor),
        ("sequence", onnx.SequenceProto, _sequence),
        ("optional", onnx.OptionalProto, _optional),
    ):
        if holds not in ("", said):
            continue
        try:
            proto: Any = kind.FromString(data)
            found = list(take(proto, name if holds else proto.name or name, path))
        except GoldenError:
            raise
        except ShapeError as error:
            problem = problem or f"{path}: {error}"
            continue
        except Exception:  # protobuf and numpy_helper have errors of their own
            continue
        yield from found
        return
    raise GoldenError(
        problem or f"{path}: holds no tensor, sequence of tensors or optional tensor with a value",
        "golden.format",
    )


def _tensor(proto: Any, name: str, path: Path) -> Iterator[tuple[str, Array]]:
    from onnx import TensorProto, numpy_helper

    if proto.data_type == TensorProto.UNDEFINED:
        raise ValueError("no tensor")
    held = proto.ByteSize()
    if proto.data_location == TensorProto.EXTERNAL:
        held = _bytes_beside(proto, path)
    _check_size(proto, name, held)
    if proto.data_type == TensorProto.STRING:  # NumPy's own texts lose zero characters at the end
        texts = [text.decode() for text in proto.string_data]
        array: Any = np.array(texts, object).reshape(tuple(proto.dims))
    else:
        array = numpy_helper.to_array(proto, str(path.parent))
    if dtype_name(array.dtype) not in DTYPES:
        told = f"{path}: {name!r} is {array.dtype}, which can't be judged"
        raise GoldenError(told, "golden.column_type")
    yield name, array


class ShapeError(ValueError):
    """A tensor that can't have the shape that it says to have."""


def _check_size(proto: Any, name: str, held: int) -> None:
    """Refuse a shape that the bytes that are there can't fill, before an array is made of it.

    Raises:
        ShapeError: naming both.
    """
    from onnx import TensorProto, helper

    dims = [int(dim) for dim in proto.dims]
    elements = math.prod(dims)
    is_beside = proto.data_location == TensorProto.EXTERNAL
    is_far_too_much = is_beside and held > _WIDEST * elements
    if any(dim < 0 for dim in dims) or elements > 2 * held or is_far_too_much:
        try:
            kind = helper.tensor_dtype_to_string(proto.data_type).removeprefix("TensorProto.")
        except Exception:  # a number that is no type's
            raise ValueError("no tensor") from None
        told = f"{name!r} says to be {kind.lower()}{dims}, but there are {held} bytes for it"
        raise ShapeError(told)


def _bytes_beside(proto: Any, path: Path) -> int:
    """Bytes of external data, which lie beside the file or below.

    Raises:
        GoldenError: they are no file there.
    """
    said = {entry.key: entry.value for entry in proto.external_data}
    place = (path.parent / said.get("location", "")).resolve()
    if not place.is_relative_to(path.parent.resolve()) or not place.is_file():
        raise GoldenError(
            f"{path}: its data lie in {said.get('location')!r}, which isn't a file in this folder",
            "golden.unreadable",
        )
    size: int = max(0, place.stat().st_size - _number(said.get("offset", "0")))
    return min(size, _number(said["length"])) if "length" in said else size


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _sequence(proto: Any, name: str, path: Path) -> Iterator[tuple[str, Array]]:
    from onnx import SequenceProto

    if proto.elem_type != SequenceProto.TENSOR or not proto.tensor_values:
        raise ValueError("no sequence of tensors")
    for number, tensor in enumerate(proto.tensor_values):
        yield from _tensor(tensor, f"{name}.{number}", path)


def _optional(proto: Any, name: str, path: Path) -> Iterator[tuple[str, Array]]:
    if proto.HasField("tensor_value"):
        yield from _tensor(proto.tensor_value, name, path)
    elif proto.HasField("sequence_value"):
        yield from _sequence(proto.sequence_value, name, path)
    else:
        raise ValueError("no value")


def as_samples(tensors: Tensors, name: str, is_whole: bool) -> Iterator[dict[str, Any]]:
    """One call of a model as samples: those of the first axis, or all of it as one.

    Raises:
        GoldenError: tensors that don't have the same first axis.
    """
    if is_whole:
        yield {"sample_id": name, **tensors}
        return
    counts = {column: array.shape[0] if array.ndim else -1 for column, array in tensors.items()}
    if len(set(counts.values())) > 1 or -1 in counts.values():
        told = ", ".join(f"{column} {list(a.shape)}" for column, a in tensors.items())
        raise GoldenError(
            f"{name}: the first axis isn't that of the samples in all tensors ({told}); --whole "
            "makes one sample of each call",
            "golden.shape",
        )
    count = next(iter(counts.values()))
    for row in range(count):
        id_ = name if count == 1 else f"{name}/{row}"
        yield {"sample_id": id_, **{column: array[row] for column, array in tensors.items()}}


def varying_columns(calls: Sequence[Mapping[str, tuple[int, ...]]], is_whole: bool) -> list[str]:
    """Columns whose samples differ in shape, of the shapes of all calls."""
    found = []
    for column in calls[0] if calls else ():
        shapes = {call[column][0 if is_whole else 1 :] for call in calls if column in call}
        if len(shapes) > 1:
            found.append(column)
    return found
