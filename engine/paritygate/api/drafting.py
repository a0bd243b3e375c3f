"""A contract drafted from a pack: a beginning, which whoever knows the product edits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

from paritygate.api.packs import Files, files_of
from paritygate.core.errors import GoldenError
from paritygate.core.tensors import ColumnSpec
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.meaning import Meaning, meaning_of
from paritygate.golden.observe import LeaveOut, Observed, observe
from paritygate.golden.onnx_data import model_dims, model_outputs
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.expect import EXPECT, check_words, must_reject

_STEP = 65_536
_HEAD = (
    "# Drafted from {samples} samples. Ranges are those that occur: widen them to what is\n"
    "# allowed, and say axes, channels and units where the pack doesn't.\n"
)


def draft_contract(
    pack: Files, *, model: str | PathLike[str] | None = None, id: str = "sample_id"
) -> str:
    """`[dims]`, `[inputs]` and `[outputs]` of a plan as TOML, from what a pack holds.

    Samples that the pack expects to be rejected don't count.

    Args:
        pack: files, folders or globs.
        model: an ONNX model that names the dims that vary, and says what the outputs are that the
            pack doesn't hold.
        id: column of the ids.

    Raises:
        GoldenError: the pack or the model can't be read.
    """
    import tomli_w

    known = model_dims(Path(model)) if model is not None else {}
    graph = model_outputs(Path(model)) if model is not None else {}
    dims: dict[str, dict[str, int]] = {}
    notes: list[str] = []
    tables: dict[str, dict[str, Any]] = {"inputs": {}, "outputs": {}}
    use = PackUse(id, slice_if_there=EXPECT)
    with open_for_check(files_of(pack), Path.cwd(), use) as opened:
        opened.scan_ids()
        leave_out, left = _to_be_rejected(opened)
        for kind, prefix, specs in (
            ("inputs", "in.", opened.inputs),
            ("outputs", "out.", opened.outputs),
        ):
            for name, spec in specs.items():
                said = _meaning(prefix + name, spec)
                axis = said.channel_axis(len(spec.shape))
                found = observe(opened, prefix + name, spec, axis, leave_out)
                table = {"dtype": found.dtype, "shape": _shape(name, found, known, dims)}
                table |= _said(said, table["shape"])
                if kind == "inputs":
                    table |= _range(found)
                    if found.nonfinite:
                        notes.append(
                            f"# {found.nonfinite} samples have a NaN or an infinity in {name!r}: "
                            "this contract rejects them.\n"
                        )
                    if found.without:
                        which = ", ".join(map(str, found.without))
                        notes.append(
                            f"# No range of {name!r}: there is no finite number in any sample of "
                            f"its channels {which} (counted from 0).\n"
                        )
                tables[kind][name] = table
        for name, (dtype, sizes) in graph.items():
            if dtype and name not in tables["outputs"]:
                tables["outputs"][name] = {"dtype": dtype, **_graph_shape(sizes, dims)}
        head = _HEAD.format(samples=opened.samples - left)
        if left:
            notes.insert(0, f"# {left} samples that must be rejected are left out.\n")
    data = {"dims": dims, **tables}
    return head + "".join(notes) + "\n" + tomli_w.dumps({k: v for k, v in data.items() if v})


def _to_be_rejected(pack: GoldenPack) -> tuple[LeaveOut | None, int]:
    """Which samples must be rejected, and how many.

    Raises:
        GoldenError: no other is there, or a word that says neither.
    """
    if EXPECT not in pack.slices:
        return None, 0
    check_words(pack, EXPECT)
    leave_out = partial(must_reject, pack, EXPECT)
    left = sum(int(leave_out(*span).sum()) for span in pack.batch_spans(_STEP))
    if left == pack.samples:
        told = "every sample is expected to be rejected, so that nothing says what is allowed"
        raise GoldenError(f"{pack.files[0].path}: {told}", "golden.empty")
    return leave_out, left


def _graph_shape(
    sizes: Sequence[int | str | None], dims: Mapping[str, object]
) -> dict[str, list[int | str]]:
    """The shape that a graph says, where the samples come first and every other dim is known."""
    if not sizes or isinstance(sizes[0], int):
        return {}
    shape: list[int | str] = ["batch"]
    for size in sizes[1:]:
        known = _word(size) if isinstance(size, str) else size
        if known is None or (isinstance(known, str) and known not in dims):
            return {}
        shape.append(known)
    return {"shape": shape}


def _meaning(column: str, spec: ColumnSpec) -> Meaning:
    try:
        return meaning_of(spec.metadata)
    except ValueError as e:
        raise GoldenError(f"column {column!r}, field metadata: {e}", "golden.schema") from None


def _said(said: Meaning, shape: Sequence[int | str]) -> dict[str, Any]:
    """Axes, channels and units as the pack says them."""
    table: dict[str, Any] = {}
    if said.axes is not None and len(said.axes) == len(shape) - 1:
        table["axes"] = ["sample", *said.axes]
    if said.channels is not None:
        table["channels"] = list(said.channels)
    if said.units is not None:
        table["units"] = said.units if isinstance(said.units, str) else list(said.units)
    return table


def _shape(
    name: str,
    found: Observed,
    known: Mapping[str, tuple[str | None, ...]],
    dims: dict[str, dict[str, int]],
) -> list[int | str]:
    """The shape with names for dims that vary, whose bounds are noted."""
    said = known.get(name, ())
    shape: list[int | str] = ["batch"]
    for axis, (low, high) in enumerate(found.dims):
        if low == high:
            shape.append(low)
            continue
        symbol = said[axis + 1] if len(said) == len(found.dims) + 1 else None
        dim = _word(symbol or f"{name}_{axis}")
        bounds = dims.setdefault(dim, {"min": low, "max": high})
        bounds.update(min=min(low, bounds["min"]), max=max(high, bounds["max"]))
        shape.append(dim)
    return shape


def _word(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9_]", "_", text)
    word = f"_{word}" if word[:1].isdigit() else word
    return f"{word}_" if word == "batch" else word


def _range(found: Observed) -> dict[str, Any]:
    pairs = [list(pair) for pair in found.ranges]
    if not pairs:
        return {}
    return {"range": pairs[0] if len(set(found.ranges)) == 1 else pairs}
