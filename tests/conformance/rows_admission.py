"""Models whose files change under a run, or that name files which aren't theirs."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from tests import models
from tests.conformance.case import RELEASE, Call, Case, hold, unjudged
from tests.conformance.rows_live import LOST, X, outside, pair

import paritygate

CHANGED = hold("evidence.changed")


def hit_midway(folder: Path, act: Callable[[Path], None]) -> Any:
    """A function against a model whose mapped weights are hit in the first batch."""
    table = models.mapped_table(folder / "m.onnx")
    done: list[bool] = []

    def ref(given: dict[str, Any]) -> dict[str, Any]:
        if not done:
            done.append(True)
            act(folder / "table.bin")
        return {"y": table[given["x"]]}

    batches = [{"x": np.arange(n, n + 8)} for n in range(0, 256, 8)]
    return paritygate.verify(ref, folder / "m.onnx", batches, atol=0, rtol=0)


def leave_alone(_weights: Path) -> None:
    pass


def overwrite(weights: Path) -> None:
    with weights.open("r+b") as file:
        file.write(bytes(weights.stat().st_size))


def cut_off(weights: Path) -> None:
    os.truncate(weights, 16)


def linked(folder: Path, hard: bool = False, out: bool = False) -> Path:
    """The weights' file is a link, within the model's folder or out of it."""
    path = outside(folder, by=1e-6)
    blob = (folder / "weights.bin").rename((folder.parent if out else folder) / "blob")
    if hard:
        os.link(blob, folder / "weights.bin")
    else:
        (folder / "weights.bin").symlink_to(blob)
    return path


def piped(folder: Path) -> Path:
    """The weights' file is a named pipe, which nobody ever writes to."""
    path = outside(folder)
    (folder / "weights.bin").unlink()
    os.mkfifo(folder / "weights.bin")
    return path


def starting(folder: Path, offset: int) -> Path:
    """The weights are said to start elsewhere in their file."""
    path = outside(folder)
    model = onnx.load(path, load_external_data=False)
    models.set_external(model.graph.initializer[0], "weights.bin", 64, offset)
    path.write_bytes(model.SerializeToString())
    return path


def with_library(folder: Path) -> Any:
    """A candidate with a library of operators that isn't the one that the plan names."""
    (folder / "libops.so").write_bytes(b"another one")
    library = {"path": str(folder / "libops.so"), "sha256": "0" * 64}
    cand = {"model": str(outside(folder)), "custom_op_libraries": [library]}
    return paritygate.verify(lambda given: {"y": given["x"]}, cand, {"x": X}, atol=0, rtol=0)


NEAR = {"atol": 1e-4, "rtol": 0.0}

ROWS = [
    Case(
        "external",
        "weights that nobody touches while they run",
        Call("verify", partial(hit_midway, act=leave_alone)),
        RELEASE,
    ),
    Case(
        "external",
        "weights that are overwritten in the middle of a run",
        Call("verify", partial(hit_midway, act=overwrite)),
        CHANGED,
        says=("table.bin",),
    ),
    Case(
        "external",
        "weights that are cut off in the middle of a run",
        Call("verify", partial(hit_midway, act=cut_off)),
        CHANGED,
        says=("table.bin",),
    ),
    pair("external", "weights behind a link in the folder", outside, linked, RELEASE, rule=NEAR),
    pair(
        "external",
        "weights that are a hard link",
        outside,
        partial(linked, hard=True),
        RELEASE,
        rule=NEAR,
    ),
    pair(
        "external",
        "weights behind a link out of the folder",
        outside,
        partial(linked, out=True),
        LOST,
        says=("a link out of the model's folder",),
    ),
    pair("external", "the weights are a named pipe", outside, piped, LOST, says=("weights.bin",)),
    pair(
        "external",
        "the weights start behind the end of their file",
        outside,
        partial(starting, offset=64),
        LOST,
        says=("up to byte 128",),
    ),
    pair(
        "external",
        "the weights start before their file",
        outside,
        partial(starting, offset=-1),
        LOST,
    ),
    Case(
        "external",
        "a library of operators with another digest than the plan names",
        Call("verify", with_library),
        unjudged("admission.digest"),
        says=("0" * 64,),
    ),
]
