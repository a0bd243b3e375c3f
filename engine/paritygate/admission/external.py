"""Which other files a model consists of, and whether it may: proved before any of them is read.

Tensors of external data, and the context binaries of compiled subgraphs (`EPContext`), name files
relative to the model's folder. What leaves that folder, isn't a plain file, or doesn't hold what
the model reads of it is refused.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

import onnx
from msgspec import Struct

from paritygate.admission.concerns import short
from paritygate.admission.errors import AdmissionError
from paritygate.admission.files import Source, open_beneath
from paritygate.admission.model import iter_nodes, iter_tensors
from paritygate.admission.values import count_bytes
from paritygate.core.digest import watch

CODE = "admission.external_data"
_NUMBER = re.compile(r"[0-9]{1,19}")
# Where ONNX Runtime reads memory at the offset instead of a file.
_MEMORY_MARK = "_ORT_MEM_ADDR_"


class Part(Struct, frozen=True):
    """What a model reads of another file.

    Attributes:
        what: a tensor or node, for messages.
        location: as the model names it.
        start: first byte.
        stop: the byte after the last; None: the whole file.
    """

    what: str
    location: str
    start: int = 0
    stop: int | None = None


def find_parts(path: Path, model: onnx.ModelProto) -> dict[str, list[Part]]:
    """All that a model reads of other files, by location in ascending order.

    Raises:
        AdmissionError: a location, offset or length that makes no sense, or that leaves the folder.
    """
    found: dict[str, list[Part]] = {}
    for part in (*_tensor_parts(path, model), *_context_parts(path, model)):
        _check_location(path, part)
        found.setdefault(part.location, []).append(part)
    for parts in found.values():
        _check_overlap(path, parts)
    return dict(sorted(found.items()))


def open_part(path: Path, folder: Path, parts: Sequence[Part]) -> Source:
    """Open the file of a location and prove that it holds what the model reads of it.

    Args:
        path: of the model, for messages.
        folder: the model's, without links in it.
        parts: what the model reads at one location.

    Returns:
        The open file; whoever asked closes its descriptor.

    Raises:
        AdmissionError: it is missing, a link out of the folder, no regular file, or too short.
    """
    location = parts[0].location
    real = Path(os.path.realpath(folder / location))
    if not real.is_relative_to(folder) or real == folder:
        raise _refusal(path, parts[0], f"is a link out of the model's folder; {_mend_link(folder)}")
    try:
        opened = open_beneath(folder, real.relative_to(folder).parts)
    except (OSError, ValueError) as e:
        raise _refusal(path, parts[0], f"{_reason(e)}; {_MEND}") from None
    source = Source(folder / location, opened, watch(folder / location, opened))
    try:
        _check_length(path, source.bytes, parts)
    except AdmissionError:
        os.close(opened)
        raise
    return source


_MEND = "put the file beside the model and refer to it by its name"


def _mend_link(folder: Path) -> str:
    if folder.parent.name == "snapshots":
        return (
            f"a Hugging Face cache holds nothing but links: copy the folder with "
            f"`cp -rL {folder} OTHER`, and name the model in the copy"
        )
    return "put a copy of the file in its place"


def _refusal(path: Path, part: Part, what: str) -> AdmissionError:
    return AdmissionError(
        f"{path}: {part.what} has external data at {short(part.location)!r}, which {what}", CODE
    )


def _reason(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if number == errno.ENOENT:
        return "is missing"
    if number == errno.EINVAL:
        return "isn't a regular file"
    if number in (errno.ELOOP, errno.ENOTDIR):
        return "goes through a link or a file that is no folder"
    return f"can't be read ({getattr(error, 'strerror', None) or error})"


def _tensor_parts(path: Path, model: onnx.ModelProto) -> Iterator[Part]:
    for tensor in iter_tensors(model):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        entries = {e.key: e.value for e in tensor.external_data}
        texts = [entries.get(key) or "0" for key in ("offset", "length")]
        location = entries.get("location", "")
        is_plain = len(entries) == len(tensor.external_data) and all(map(_NUMBER.fullmatch, texts))
        if not location or "\0" in location or not is_plain:
            told = [short(f"{e.key}={e.value}") for e in tensor.external_data[:10]]
            raise AdmissionError(
                f"{path}: tensor {short(tensor.name)!r} has external data without a usable "
                f"location, offset and length ({told}); export the model again",
                CODE,
            )
        start, length = (int(text) for text in texts)
        yield Part(
            f"tensor {short(tensor.name)!r}",
            location,
            start,
            start + (length or _size(path, tensor)),
        )


def _context_parts(path: Path, model: onnx.ModelProto) -> Iterator[Part]:
    """Files of compiled subgraphs that aren't embedded in the model."""
    for node in iter_nodes(model):
        if node.op_type != "EPContext":
            continue
        attributes = {a.name: a for a in node.attribute}
        embed, context = attributes.get("embed_mode"), attributes.get("ep_cache_context")
        if embed is None or embed.i != 0 or context is None or not context.s:
            continue
        location = context.s.decode(errors="replace")
        if "\0" in location:
            raise AdmissionError(f"{path}: node {short(node.name)!r} names no usable file", CODE)
        yield Part(f"node {short(node.name)!r}", location)


def _size(path: Path, tensor: onnx.TensorProto) -> int:
    """Bytes of a tensor by its dtype and dims; 0 for a dtype that is unknown here."""
    if any(dim < 0 for dim in tensor.dims):
        raise AdmissionError(
            f"{path}: tensor {short(tensor.name)!r} has the dims {list(tensor.dims)[:20]}; export "
            "the model again",
            CODE,
        )
    return count_bytes(tensor)


def _check_location(path: Path, part: Part) -> None:
    if _MEMORY_MARK in part.location:
        raise _refusal(path, part, f"means memory and no file; {_MEND}")
    there = PurePosixPath(part.location)
    if there.is_absolute():
        raise _refusal(path, part, f"is absolute; {_MEND}")
    if ".." in there.parts or not there.parts:
        raise _refusal(path, part, f"is outside the model's folder, or the folder itself; {_MEND}")
    if there == PurePosixPath(path.name):
        raise _refusal(path, part, f"is the model file itself; {_MEND}")


def _check_overlap(path: Path, parts: Sequence[Part]) -> None:
    """Refuse ranges that cross; equal ones are shared weights, and one may lie within another."""
    around: list[Part] = []
    for part in sorted(parts, key=lambda p: (p.start, -(p.stop or 0))):
        if part.stop is None or part.stop == part.start:
            continue
        while around and (around[-1].stop or 0) <= part.start:
            around.pop()
        if around and (around[-1].stop or 0) < part.stop:
            other = around[-1]
            raise AdmissionError(
                f"{path}: external data {short(part.location)!r}: {other.what} reads bytes "
                f"{other.start} to {other.stop} and {part.what} bytes {part.start} to {part.stop}, "
                "which share a part; the file belongs to another model, or the export is broken: "
                "export again",
                CODE,
            )
        around.append(part)


def _check_length(path: Path, size: int, parts: Sequence[Part]) -> None:
    end = max((part.stop or 0) for part in parts)
    if size < end:
        raise AdmissionError(
            f"{path}: external data {short(parts[0].location)!r} has {size} bytes but the model "
            f"reads up to byte {end}; the file is truncated or belongs to another model",
            CODE,
        )
