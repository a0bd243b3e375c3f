"""Chosen samples of a pack for other tools: ONNX's test data, or arrays of NumPy."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paritygate.core.dtypes import STRING
from paritygate.core.errors import GoldenError
from paritygate.core.ragged import Ragged, row_of, stack_rows
from paritygate.core.tensors import Array
from paritygate.golden.evidence import KEY as EVIDENCE
from paritygate.golden.evidence import SYNTHETIC, synthetic_rows
from paritygate.golden.onnx_data import Names, write_set
from paritygate.golden.pack import GoldenPack
from paritygate.golden.write import folder_error

_NUMPY_KINDS = "biuf"


def export_sets(pack: GoldenPack, rows: Sequence[int], folder: Path, names: Names) -> list[Path]:
    """Write `test_data_set_N` folders, one a sample, as batches of one.

    Args:
        pack: whose samples.
        rows: which, in this order.
        folder: made if it isn't there; it must not hold test data yet.
        names: of a model, which says the order of inputs and outputs.

    Raises:
        GoldenError: an input of the model that the pack lacks.
        FolderError: a folder that is there already or can't be written.
    """
    inputs = _ordered(pack, "input", list(pack.inputs), [name for name, _ in names.inputs])
    outputs = _ordered(pack, "output", list(pack.outputs), [name for name, _ in names.outputs])
    synthetic = synthetic_rows(pack)
    made: list[Path] = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, row in enumerate(rows):
            final = folder / f"test_data_set_{number}"
            if final.exists():
                raise FileExistsError(17, "File exists", str(final))
            partial = folder / f"{final.name}.partial"
            made.append(partial)
            given = {n: row_of(pack.tensor(f"in.{n}", row, row + 1), 0)[None] for n in inputs}
            answers = {
                name: array[None]
                for name in outputs
                if (array := _answer(pack, name, row)) is not None
            }
            is_marked = synthetic is not None and bool(synthetic[row])
            write_set(partial, given, answers, is_synthetic=is_marked)
        return [_rename(path) for path in list(made)]
    except OSError as error:
        _remove(made)
        raise folder_error(folder, error) from error
    except BaseException:
        _remove(made)
        raise


def export_npz(pack: GoldenPack, rows: Sequence[int], path: Path) -> Path:
    """Write one `.npz` file: `sample_id`, `in.NAME` and `out.NAME`, a row a sample.

    Raises:
        GoldenError: samples of different shape, or a dtype that NumPy lacks.
        FolderError: the file can't be written.
    """
    wanted = np.array(rows, np.int64)
    arrays: dict[str, Any] = {"sample_id": _texts("sample_id", pack.take_ids(wanted))}
    for name in pack.inputs:
        arrays[f"in.{name}"] = _stacked(pack, f"in.{name}", rows)
    for name in pack.outputs:
        if all(_answer(pack, name, row) is not None for row in rows):
            arrays[f"out.{name}"] = _stacked(pack, f"out.{name}", rows)
    synthetic = synthetic_rows(pack)
    if synthetic is not None and synthetic[wanted].any():
        arrays[EVIDENCE] = np.where(synthetic[wanted], SYNTHETIC, "")
    partial = path.with_name(path.name + ".partial")
    try:
        with partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        partial.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise folder_error(path, error) from error
    return path


def _answer(pack: GoldenPack, name: str, row: int) -> Array | None:
    """A recorded output; None where that side gave none, as in a failure shard."""
    try:
        return row_of(pack.output(name, row, row + 1), 0)
    except GoldenError as error:
        if error.code == "golden.null_value":
            return None
        raise


def _ordered(
    pack: GoldenPack, what: str, have: Sequence[str], wanted: Sequence[str]
) -> Sequence[str]:
    if not wanted:
        return have
    missing = [name for name in wanted if name not in have]
    if missing and what == "input":
        told = f"{pack.files[0].path}: has no input {missing[0]!r}, which the model takes"
        raise GoldenError(told, "golden.missing_column")
    return [name for name in wanted if name in have]


def _stacked(pack: GoldenPack, column: str, rows: Sequence[int]) -> Any:
    arrays = [row_of(pack.tensor(column, row, row + 1), 0) for row in rows]
    if len({array.shape for array in arrays}) > 1:
        told = ", ".join(str(list(array.shape)) for array in arrays[:5])
        raise GoldenError(
            f"{column}: these samples differ in shape ({told}), which no array holds; export them "
            "one by one, or as test data",
            "golden.shape",
        )
    stacked = stack_rows(Ragged.of(arrays), np.arange(len(arrays)))
    if stacked.dtype.kind == "O":
        return _texts(column, stacked)
    if stacked.dtype.kind not in _NUMPY_KINDS:
        told = f"{column}: a file of NumPy has no {stacked.dtype}; export test data instead"
        raise GoldenError(told, "golden.column_type")
    return stacked


def _texts(column: str, values: Any) -> Any:
    """Texts as NumPy's own; it loses zero characters at the end of them."""
    if values.dtype.kind != "O":
        return values
    texts = values.astype(str)
    if not (texts.astype(object) == values).all():
        told = f"{column}: a {STRING} that ends in a zero character isn't kept by NumPy"
        raise GoldenError(told, "golden.value")
    return texts


def _rename(partial: Path) -> Path:
    final = partial.with_name(partial.name.removesuffix(".partial"))
    return partial.rename(final)


def _remove(made: Sequence[Path]) -> None:
    for path in made:
        shutil.rmtree(path, ignore_errors=True)
