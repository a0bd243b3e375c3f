"""Inputs and outputs as Polygraphy saves them: JSON with arrays of NumPy in base64."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from paritygate.core.dtypes import DTYPES, dtype_name
from paritygate.core.errors import GoldenError
from paritygate.core.tensors import Array
from paritygate.golden.bounds import as_texts, read_whole

_CLASS = "polygraphy_class"
_MOST_BYTES = 1 << 33
_MAGIC = b"\x93NUMPY"
Tensors = dict[str, Array]


def read_json(path: Path, runner: str | None) -> tuple[str, list[Tensors]]:
    """Tensors of each iteration, and whether they are inputs ("in") or outputs ("out").

    Args:
        path: what `--save-inputs` or `--save-outputs` wrote.
        runner: whose outputs; None: there is one runner only.

    Raises:
        GoldenError: another JSON, an array that can't be read, or no such runner.
    """
    try:
        told = orjson.loads(read_whole(path, _MOST_BYTES))
    except orjson.JSONDecodeError as error:
        raise GoldenError(f"{path}: is no JSON ({error})", "golden.format") from error
    if isinstance(told, list) and not told:
        raise GoldenError(f"{path}: holds no iteration", "golden.empty")
    if isinstance(told, list):
        return "in", [_tensors(path, f"iteration {at}", one) for at, one in enumerate(told)]
    if isinstance(told, Mapping) and told.get(_CLASS) == "RunResults":
        return "out", _outputs(path, told, runner)
    raise GoldenError(
        f"{path}: is neither a list of inputs nor RunResults, which Polygraphy saves by "
        "--save-inputs and --save-outputs",
        "golden.format",
    )


def _outputs(path: Path, told: Mapping[str, Any], runner: str | None) -> list[Tensors]:
    try:
        runs = {str(name): iterations for name, iterations in told["lst"]}
        named = {
            name: [iteration["outputs"] for iteration in iterations]
            for name, iterations in runs.items()
        }
    except (KeyError, TypeError, ValueError) as error:
        raise GoldenError(f"{path}: is no RunResults ({error!r})", "golden.format") from error
    chosen = runner or (next(iter(named)) if len(named) == 1 else None)
    if chosen not in named:
        have = ", ".join(named) or "none"
        raise GoldenError(
            f"{path}: holds the outputs of: {have}; name one of them by --runner",
            "golden.missing_column",
        )
    if not named[chosen]:
        raise GoldenError(f"{path}: holds no iteration of {chosen}", "golden.empty")
    return [
        _tensors(path, f"{chosen}, iteration {at}", one) for at, one in enumerate(named[chosen])
    ]


def _tensors(path: Path, where: str, told: Any) -> Tensors:
    if not isinstance(told, Mapping):
        raise GoldenError(f"{path}: {where} is no table of tensors", "golden.format")
    return {
        str(name): _array(path, f"{where}, {name!r}", value)
        for name, value in told.items()
        if name != _CLASS
    }


def _array(path: Path, where: str, told: Any) -> Array:
    if isinstance(told, Mapping) and told.get(_CLASS) == "LazyArray":
        told = told.get("values")
    if not isinstance(told, Mapping) or not isinstance(told.get("array"), str):
        kind = told.get(_CLASS) if isinstance(told, Mapping) else type(told).__name__
        raise GoldenError(f"{path}: {where} is {kind}, no array", "golden.format")
    try:
        data = base64.b64decode(told["array"], validate=True)
        if not data.startswith(_MAGIC):
            raise ValueError("it is no array of NumPy's own format")
        array: Any = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception as error:  # the parser of headers has errors of many kinds
        raise GoldenError(f"{path}: {where} can't be read ({error})", "golden.format") from error
    if not isinstance(array, np.ndarray):
        raise GoldenError(f"{path}: {where} is no array", "golden.format")
    if array.dtype.kind == "U":
        array = as_texts(f"{path}: {where}", array)
    native: Array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if dtype_name(array.dtype) not in DTYPES:
        told_dtype = f"{path}: {where} is {array.dtype}, which can't be judged"
        raise GoldenError(told_dtype, "golden.column_type")
    return native
