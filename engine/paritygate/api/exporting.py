"""Chosen samples of a pack or of a failure shard, for other tools."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from paritygate.api.packs import Files, files_of
from paritygate.core.errors import GoldenError, PlanError, Problem
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.export import export_npz, export_sets
from paritygate.golden.onnx_data import Names, model_names
from paritygate.golden.pack import GoldenPack

Where = str | PathLike[str]


def export_pack(
    pack: Files,
    out: Where,
    *,
    ids: Sequence[int | str] = (),
    rows: Sequence[int] = (),
    model: Where | None = None,
    outputs_prefix: str = "out.",
    id: str = "sample_id",
) -> list[Path]:
    """Write samples as `test_data_set_N` folders, one each; or all of them as one `.npz` file.

    Args:
        pack: files, folders or globs; a failure shard too.
        out: a path that ends in `.npz`, or a folder.
        ids: of the samples.
        rows: of the samples, from 0, instead.
        model: says the order of inputs and outputs.
        outputs_prefix: `ref.` or `cand.` for what a side of a shard answered.
        id: column of the ids.

    Raises:
        GoldenError: the pack can't be read, or has no such sample.
        FolderError: something is there already, or can't be written.
    """
    if bool(len(ids)) == bool(len(rows)):
        told = "name the samples by their ids or by their rows"
        raise PlanError([Problem("--ids", told)], "pack export")
    use = PackUse(id, outputs_prefix=outputs_prefix)
    names = model_names(Path(model)) if model is not None else Names()
    with open_for_check(files_of(pack), Path.cwd(), use) as opened:
        opened.scan_ids()
        chosen = rows_of(opened, ids) if len(ids) else _checked(opened, rows)
        target = Path(out)
        if target.suffix.lower() == ".npz":
            return [export_npz(opened, chosen, target)]
        return export_sets(opened, chosen, target, names)


def rows_of(pack: GoldenPack, ids: Sequence[int | str]) -> list[int]:
    """Rows of samples by their ids, given as they are or as text.

    Raises:
        GoldenError: an id that the pack lacks.
    """
    if pack.id_kind == "int64":
        try:
            wanted = np.array([int(i) for i in ids], np.int64)
        except (ValueError, OverflowError):
            raise GoldenError(f"{list(ids)}: the ids of this pack are numbers") from None
    else:
        wanted = np.array([str(i) for i in ids], object)
    rows = pack.index().rows(wanted)
    missing = [repr(i) for i, row in zip(ids, rows.tolist(), strict=True) if row < 0]
    if missing:
        told = f"{pack.files[0].path}: has no sample {', '.join(missing[:10])}"
        raise GoldenError(told, "golden.missing_id")
    found: list[int] = rows.tolist()
    return found


def _checked(pack: GoldenPack, rows: Sequence[int]) -> list[int]:
    for row in rows:
        if not 0 <= row < pack.samples:
            told = f"{pack.files[0].path}: has no row {row}; it has {pack.samples}, from 0"
            raise GoldenError(told, "golden.missing_id")
    return list(rows)
