"""What a file of PyTorch is, told apart by looking at it: nothing is unpickled.

`torch.save` and TorchScript write zip archives that differ in what they contain; a pickle names the
classes and functions that it would import and call.
"""

from __future__ import annotations

import pickletools
import zipfile
from pathlib import Path
from typing import IO, Literal

Form = Literal["torchscript", "exported", "weights", "pickle", "safetensors", "other"]

# What a pickle of tensors alone names, besides storages.
_OF_TENSORS = frozenset(
    {
        "collections OrderedDict",
        "torch Size",
        "torch device",
        "torch._utils _rebuild_parameter",
        "torch._utils _rebuild_tensor",
        "torch._utils _rebuild_tensor_v2",
    }
)
_STORAGE = "Storage"
_HEADER_LIMIT = 100 << 20  # bytes of JSON that a safetensors file may begin with
_PICKLE_LIMIT = 256 << 20
_LEGACY_PICKLES = 5  # magic number, version, machine, what was saved, keys of the storages


def form_of_file(path: Path) -> Form:
    """What a file is: a TorchScript archive, an exported program, weights, another pickle.

    Raises:
        OSError: the file can't be read.
    """
    if not zipfile.is_zipfile(path):
        return _form_of_other(path)
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return "other"
    inner = {name.partition("/")[2] for name in names}
    if any(name.startswith("models/") for name in inner) or "archive_format" in inner:
        return "exported"
    if "serialized_exported_program.json" in names:
        return "exported"
    if "constants.pkl" in inner:
        return "torchscript"
    if "data.pkl" in inner:
        return "pickle" if pickled_names(path) else "weights"
    return "other"


def pickled_names(path: Path) -> list[str]:
    """Classes and functions that a file of `torch.save` would import, but for those of tensors.

    Returns:
        `module.name` of each, sorted; `?` where it can't be told.
    """
    if not zipfile.is_zipfile(path):
        return _legacy_names(path)
    try:
        with zipfile.ZipFile(path) as archive:
            member = next(n for n in archive.namelist() if n.partition("/")[2] == "data.pkl")
            if archive.getinfo(member).file_size > _PICKLE_LIMIT:
                return ["?"]
            return foreign_names(archive.read(member))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, StopIteration):
        return ["?"]


def _legacy_names(path: Path) -> list[str]:
    """Of a file in the format before torch 1.6: pickles one after the other, then the numbers."""
    if path.stat().st_size > _PICKLE_LIMIT:
        return ["?"]
    found: set[str] = set()
    with path.open("rb") as file:
        for _ in range(_LEGACY_PICKLES):
            found.update(foreign_names(file))
    return sorted(found - {"?"}) or sorted(found)


def foreign_names(pickled: bytes | IO[bytes]) -> list[str]:
    """What a pickle would import besides what tensors are made of, without unpickling it."""
    found: set[str] = set()
    texts: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(pickled):
            if opcode.name in ("GLOBAL", "INST"):
                found.add(str(argument))
            elif opcode.name == "STACK_GLOBAL":
                found.add(" ".join(texts[-2:]))
            elif isinstance(argument, str):
                texts.append(argument)
    except Exception:  # pickletools has no error of its own
        return ["?"]
    foreign = {name for name in found if name not in _OF_TENSORS and not _is_storage(name)}
    return sorted(name.replace(" ", ".") for name in foreign)


def _is_storage(name: str) -> bool:
    module, _, attribute = name.partition(" ")
    return module in ("torch", "torch.storage") and attribute.endswith(_STORAGE)


def _form_of_other(path: Path) -> Form:
    with path.open("rb") as file:
        head = file.read(9)
    size = int.from_bytes(head[:8], "little")
    if head[8:9] == b"{" and 2 <= size <= min(_HEADER_LIMIT, path.stat().st_size - 8):
        return "safetensors"
    if head[:1] != b"\x80":
        return "other"
    return "pickle" if _legacy_names(path) else "weights"
