"""A model with all files that it consists of: copied, digested, checked and described.

The model file alone doesn't identify a model: its weights may lie in other files. What is digested
is the copy, and the copy is what a runner loads; no external data is loaded into memory here.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import onnx
from msgspec import Struct

from paritygate.admission import semantic
from paritygate.admission.check import start_check
from paritygate.admission.errors import AdmissionError
from paritygate.admission.external import Part, find_parts, open_part
from paritygate.admission.files import Copy, Source, copy_file, open_file
from paritygate.admission.inspect import Inspection, inspect_structure
from paritygate.admission.model import ModelFacts, describe_model, read_structure
from paritygate.admission.nodes import ModelNode, list_nodes
from paritygate.admission.precision import describe_precision
from paritygate.admission.semantic import GraphDigest
from paritygate.admission.staging import Held, hold
from paritygate.admission.structure import check_runnable
from paritygate.core.digest import Watched, kept_digest

_PROTOBUF_LIMIT = (1 << 31) - 1


class ExternalFile(Struct, frozen=True):
    """A file beside the model: location relative to the model's folder, bytes, SHA-256 (hex)."""

    location: str
    bytes: int
    sha256: str


class ModelIdentity(Struct, frozen=True):
    """What a model is.

    Attributes:
        digest: SHA-256 (hex) over the model file and every file beside it that it refers to.
        sha256: of the model file alone.
        bytes: of the model file alone.
        files: external data, sorted by location.
        graph: SHA-256 (hex) of what it calculates, however it is packaged, without the versions
            of its opsets.
        semantic: the same with them.
    """

    digest: str
    sha256: str
    bytes: int
    files: tuple[ExternalFile, ...]
    graph: str
    semantic: str


class Admitted(Struct, frozen=True):
    """A model that may be loaded, picklable: other processes can load the copy too.

    Attributes:
        path: of the copy, with its external data beside it.
        source: the model as the plan names it.
        identity: what it is.
        facts: what it says of itself.
        precision: in which precision it calculates.
        nodes: that it is written with.
        inspection: what a look into it found.
        seconds: that copying and digesting took.
        is_clone: whether the copies share their blocks with the originals.
        watched: all original files as they were when they were copied.
    """

    path: Path
    source: Path
    identity: ModelIdentity
    facts: ModelFacts
    precision: Mapping[str, object]
    nodes: tuple[ModelNode, ...]
    inspection: Inspection
    seconds: float
    is_clone: bool
    watched: tuple[Watched, ...]

    def in_words_of_the_plan(self, text: str) -> str:
        """A message about the copy, about the file that the plan names."""
        text = text.replace(str(self.path), str(self.source))
        return text.replace(str(self.path.parent), str(self.source.parent))


def admit_model(path: Path, *, check: bool = True) -> Held[Admitted]:
    """Copy a model and its external data to the private place, digest and check the copy.

    Args:
        path: the model file; it may be a link, external data is looked for beside the link.
        check: whether `onnx.checker` looks at it, in a child process.

    Raises:
        AdmissionError: it isn't a sound model (`admission.invalid_model`), its external data is
            missing, too short or outside of its folder (`admission.external_data`), the check
            itself failed (`admission.check_failed`), a file changed while it was copied
            (`admission.changed`), or there is no room (`admission.staging`).
    """
    key = ("model", str(path.absolute()), str(check))
    return hold(key, lambda folder: _admit(path, folder, check))


def _admit(path: Path, folder: Path, check: bool) -> Admitted:
    started = time.perf_counter()
    target = folder / path.name
    with open_file(path) as source:
        _check_size(source)
        copy = copy_file(source, target)
        model_file = source.watched
    structure = read_structure(target, path)
    files, copies, watched = _copy_parts(path, target, structure)
    seconds = time.perf_counter() - started
    pending = start_check(target, shown=path) if check else None
    try:
        facts, precision = describe_model(structure), describe_precision(structure)
        result = pending.result() if pending is not None else None
    finally:
        if pending is not None:
            pending.cancel()
    if result is not None and not result.is_judged:
        raise AdmissionError(
            f"the model could not be checked: {result.message}; look at this machine's limits "
            "(ulimit -a) and memory",
            "admission.check_failed",
            is_machine_fault=True,
        )
    if result is not None and not result.ok:
        raise AdmissionError(f"the model is malformed: {result.message}")
    check_runnable(structure, path)
    everything = (model_file, *watched)
    return Admitted(
        path=target,
        source=path,
        identity=_identify(copy, files, _digest_graph(structure, target.parent, everything)),
        facts=facts,
        precision=precision,
        nodes=list_nodes(structure),
        inspection=inspect_structure(structure, facts, target.parent),
        seconds=seconds,
        is_clone=all(c.is_clone for c in (copy, *copies)),
        watched=everything,
    )


def _check_size(source: Source) -> None:
    if source.bytes > _PROTOBUF_LIMIT:
        raise AdmissionError(
            f"{source.path}: has {source.bytes} bytes, but a model file ends at 2 GiB; keep its "
            "weights in a file beside it: onnx.save(model, path, save_as_external_data=True)"
        )


def _copy_parts(
    path: Path, target: Path, structure: onnx.ModelProto
) -> tuple[list[ExternalFile], list[Copy], list[Watched]]:
    """Copy all files beside the model, once every one of them is proved to be fit."""
    folder = Path(os.path.realpath(path.parent))
    parts = find_parts(path, structure)
    sources = {location: _look_at(path, folder, there) for location, there in parts.items()}
    pending = sum(watched.stamp["size"] for watched in sources.values())
    files, copies = [], dict[Path, Copy]()
    for location, watched in sources.items():
        to = target.parent / location
        if to not in copies:
            copies[to] = _copy_part(path, folder, parts[location], watched, to, pending)
        pending -= watched.stamp["size"]
        files.append(ExternalFile(location, copies[to].bytes, copies[to].sha256))
    return files, list(copies.values()), list(sources.values())


def _look_at(path: Path, folder: Path, parts: Sequence[Part]) -> Watched:
    source = open_part(path, folder, parts)
    os.close(source.opened)
    return source.watched


def _copy_part(
    path: Path, folder: Path, parts: Sequence[Part], then: Watched, to: Path, pending: int
) -> Copy:
    """Copy the file that was looked at; one that is there in its place by now is refused."""
    source = open_part(path, folder, parts)
    try:
        to.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return copy_file(Source(source.path, source.opened, then), to, pending)
    finally:
        os.close(source.opened)


def _digest_graph(
    structure: onnx.ModelProto, folder: Path, watched: Sequence[Watched]
) -> GraphDigest:
    """What the copy calculates, digested before if none of the originals has changed since."""
    kind = f"graph of an ONNX model, {semantic.VERSION}"
    made = kept_digest(kind, watched, lambda: semantic.digest_graph(structure, folder))
    return GraphDigest(made, semantic.used_opsets(structure))


def _identify(copy: Copy, files: Sequence[ExternalFile], graph: GraphDigest) -> ModelIdentity:
    parts = [copy.sha256, [[f.location, f.bytes, f.sha256] for f in files]]
    text = json.dumps(parts, separators=(",", ":"), ensure_ascii=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return ModelIdentity(digest, copy.sha256, copy.bytes, tuple(files), graph.graph, graph.semantic)
