"""What can be said of a model that is no ONNX file, without unpickling or running any of it."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

from paritygate.admission.concerns import Concern, short, some
from paritygate.admission.errors import AdmissionError
from paritygate.admission.files import open_file
from paritygate.admission.inspect import Inspection
from paritygate.admission.torch_file import form_of_file, pickled_names

_JSON_LIMIT = 64 << 20
_MOST = 200
# What zipfile raises of an archive that isn't whole: also one that asks for a password.
_DAMAGED = (zipfile.BadZipFile, NotImplementedError, RuntimeError, zlib.error, EOFError)
_WORDS = {
    "torchscript": "TorchScript: code and weights of a program",
    "exported": "a program that torch.export.save wrote",
    "weights": "weights alone, which need a factory to run: runners.NAME.factory",
    "safetensors": "weights alone (safetensors), which need a factory to run: runners.NAME.factory",
    "pickle": "a pickle that names classes or functions",
}


def form_of_model(path: Path) -> str:
    """`onnx`, `tflite` or a form of torch's files, told by what is in the file.

    Raises:
        AdmissionError: it can't be read, isn't a regular file, or is empty.
    """
    with open_file(path) as source:
        size = source.bytes
    if not size:
        raise AdmissionError(f"{path}: is empty; export it again, or check the download")
    if path.suffix == ".onnx":
        return "onnx"
    try:
        with path.open("rb") as file:
            head = file.read(8)
        form = form_of_file(path)
    except OSError as e:
        raise AdmissionError(f"{path}: can't be read: {e.strerror or e}") from None
    if head[4:8] == b"TFL3":
        return "tflite"
    return "onnx" if form == "other" and not zipfile.is_zipfile(path) else form


def inspect_other(path: Path, form: str) -> tuple[dict[str, object], Inspection]:
    """What is in a file of a form other than `onnx`.

    Returns:
        Size and digest; and what a look into it found.

    Raises:
        AdmissionError: it is of no form that is known, or a damaged archive.
        OSError: it can't be read.
    """
    if form == "tflite":
        raise AdmissionError(
            f"{path}: is a TFLite model, which this version neither looks into nor runs; compare "
            "what it answers by a Python function or a recording"
        )
    if form not in _WORDS:
        raise AdmissionError(f"{path}: is an archive, but none that torch writes, and no model")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    identity: dict[str, object] = {"sha256": digest, "bytes": path.stat().st_size}
    facts: dict[str, object] = {"what": _WORDS[form]}
    concerns: tuple[Concern, ...] = ()
    if form == "pickle":
        concerns = (_unsafe(path),)
    if form in ("torchscript", "exported"):
        facts |= _archive(path)
    return identity, Inspection(facts, concerns)


def _unsafe(path: Path) -> Concern:
    return Concern(
        "admission.unsafe_model",
        f"unpickling it would import {some(pickled_names(path))}: it could run any code",
        "save a program (torch.export.save, torch.jit.save) or weights alone "
        "(model.state_dict(), safetensors)",
    )


def _archive(path: Path) -> dict[str, object]:
    """Members of an archive, and the operators of an exported program, read as JSON."""
    try:
        return _members(path)
    except (*_DAMAGED, OSError, ValueError) as e:
        raise AdmissionError(f"{path}: the archive is damaged ({short(e)}); export again") from None


def _members(path: Path) -> dict[str, object]:
    with zipfile.ZipFile(path) as archive:
        infos = archive.infolist()
        told: dict[str, object] = {
            "members": len(infos),
            "unpacked_bytes": sum(info.file_size for info in infos),
        }
        for info in infos:
            is_graph = info.filename.endswith(
                ("models/model.json", "serialized_exported_program.json")
            )
            if is_graph and info.file_size <= _JSON_LIMIT:
                told["operators"] = _targets(archive.read(info))
    return told


def _targets(text: bytes) -> list[dict[str, object]]:
    try:
        nodes = json.loads(text)["graph_module"]["graph"]["nodes"]
        counted: Counter[str] = Counter(_target(node) for node in nodes)
    except (ValueError, KeyError, TypeError, RecursionError):
        return []
    return [{"op_type": short(op), "count": n} for op, n in sorted(counted.items())[:_MOST]]


def _target(node: Any) -> str:
    return str(node["target"])
