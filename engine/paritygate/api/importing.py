"""Packs made of what other tools keep: ONNX's test data, Polygraphy's inputs and outputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from msgspec import Struct

from paritygate.api.building import build_pack
from paritygate.core.errors import GoldenError
from paritygate.golden.build import Built
from paritygate.golden.evidence import KEY as EVIDENCE
from paritygate.golden.evidence import SYNTHETIC
from paritygate.golden.onnx_data import (
    Names,
    Tensors,
    as_samples,
    find_sets,
    is_synthetic_set,
    model_names,
    read_set,
    read_tolerances,
    varying_columns,
)
from paritygate.golden.polygraphy_data import read_json

Where = str | PathLike[str]


class Imported(Struct, frozen=True):
    """A pack that was made of other data.

    Attributes:
        built: the pack.
        tolerances: `atol` and `rtol` that stand beside ONNX's test data, as far as they do.
    """

    built: Built
    tolerances: Mapping[str, float]


def import_pack(
    path: Where,
    sources: Where | Sequence[Where],
    *,
    model: Where | None = None,
    whole: bool = False,
    runner: str | None = None,
) -> Imported:
    """Write a pack from `test_data_set_N` folders, or from Polygraphy's JSON files.

    Args:
        path: of the Arrow file.
        sources: folders that hold `test_data_set_N` or are one; or a JSON of inputs, one of
            outputs, or both, joined by iteration.
        model: says the names and kinds of inputs and outputs; without it the files do.
        whole: one sample of each call, as it is; else the first axis is that of the samples.
        runner: whose outputs, where a JSON holds those of several.

    Raises:
        GoldenError: what can't be read or isn't a sample.
        FolderError: the pack can't be written.
    """
    given = [sources] if isinstance(sources, str | PathLike) else list(sources)
    files = [Path(source) for source in given]
    if any(file.suffix.lower() == ".json" for file in files):
        calls: _Calls = _JsonCalls(files, runner)
        tolerances: dict[str, float] = {}
    else:
        names = model_names(Path(model)) if model is not None else Names()
        calls = _OnnxCalls(files, names)
        tolerances = calls.tolerances()
    shapes = [{column: array.shape for column, array in call.items()} for _, call in calls]
    varying = varying_columns(shapes, whole)
    synthetic = calls.synthetic
    samples = (
        sample | ({EVIDENCE: SYNTHETIC if name in synthetic else ""} if synthetic else {})
        for name, call in calls
        for sample in as_samples(call, name, whole)
    )
    return Imported(build_pack(path, samples, varying=varying), tolerances)


class _Calls:
    """Calls of a model, each with a name; they can be gone through more than once.

    Attributes:
        synthetic: names of those that say that they are no acceptance evidence.
    """

    synthetic: frozenset[str] = frozenset()

    def __iter__(self) -> Iterator[tuple[str, Tensors]]:
        raise NotImplementedError


class _OnnxCalls(_Calls):
    def __init__(self, folders: Sequence[Path], names: Names) -> None:
        self._sets = [(folder, found) for folder in folders for found in find_sets(folder)]
        self._folders, self._names = folders, names
        self.synthetic = frozenset(
            self._name(folder, one) for folder, one in self._sets if is_synthetic_set(one)
        )

    def tolerances(self) -> dict[str, float]:
        """Those of `config.txt` in the folders or beside them."""
        found: dict[str, float] = {}
        for folder, one in self._sets:
            for place in dict.fromkeys((folder, one.parent)):
                found.update(read_tolerances(place))
        return found

    def __iter__(self) -> Iterator[tuple[str, Tensors]]:
        for folder, found in self._sets:
            yield self._name(folder, found), read_set(found, self._names)

    def _name(self, folder: Path, found: Path) -> str:
        is_alone = len(self._folders) == 1 or folder == found
        return found.name if is_alone else f"{folder.name}/{found.name}"


class _JsonCalls(_Calls):
    def __init__(self, files: Sequence[Path], runner: str | None) -> None:
        sides: dict[str, tuple[Path, list[Any]]] = {}
        for file in files:
            side, iterations = read_json(file, runner)
            if side in sides:
                told = f"{file}: holds {side}puts, as {sides[side][0]} does; name one of them"
                raise GoldenError(told, "golden.schema")
            sides[side] = file, iterations
        counts = {len(iterations) for _, iterations in sides.values()}
        if len(counts) > 1:
            told = ", ".join(f"{file} {len(some)}" for file, some in sides.values())
            raise GoldenError(f"other numbers of iterations: {told}", "golden.schema")
        self._calls = [
            {f"{side}.{n}": a for side, (_, some) in sides.items() for n, a in some[at].items()}
            for at in range(counts.pop())
        ]

    def __iter__(self) -> Iterator[tuple[str, Tensors]]:
        for number, call in enumerate(self._calls):
            yield f"iteration_{number}", call
