"""The same statistics and flips, plainly written for CuPy or torch over arrays of a device.

What is found of a batch stays on the device until all are done. In the simulator NumPy stands for
CuPy, and torch works on the CPU.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from bench.elements import RANKED_WIDTH

from paritygate.core.dtypes import numpy_dtype
from paritygate.core.policy import Tolerance
from paritygate.gpu.device import SIMULATED, cuda
from paritygate.tally.output import OutputTally

Tier = Literal["gate", "full"]
Name = Literal["CuPy", "torch"]
NAMES: tuple[Name, ...] = ("CuPy", "torch")
BINS = 16_378
WHOLE = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}  # of so many bytes
FAR = 1e-6  # from zero: steps of what is nearer mean little


class LackingError(Exception):
    """Something can't be measured here; the text says why."""


@dataclass(frozen=True)
class Library:
    """A library of arrays, by what each names otherwise.

    Attributes:
        name: of it.
        xp: its module.
        taken: its array over an array of the device, of a dtype of that name.
        cast: an array in another dtype.
        top: the indices of the largest k of each row.
        sorted: rows in ascending order.
        placed: between which of these edges values lie.
        host: an array of the host.
    """

    name: Name
    xp: Any
    taken: Callable[[Any, str], Any]
    cast: Callable[[Any, str], Any]
    top: Callable[[Any, int], Any]
    sorted: Callable[[Any], Any]
    placed: Callable[[Any, Any], Any]
    host: Callable[[Any], Any]


def library(name: Name) -> Library:
    """One of them.

    Raises:
        LackingError: it isn't there, or finds no device.
    """
    return _torch() if name == "torch" else _cupy()


def _cupy() -> Library:
    xp: Any = np if SIMULATED else imported("cupy")

    def taken(array: Any, name: str) -> Any:
        if name == "bfloat16":
            raise LackingError("CuPy has no bfloat16")
        own = array.copy_to_host() if SIMULATED else xp.asarray(array)
        return own.view(numpy_dtype(name))

    return Library(
        "CuPy",
        xp,
        taken,
        lambda x, dtype: x.astype(dtype),
        lambda x, k: xp.argpartition(x, -k, axis=1)[:, -k:],
        lambda x: xp.sort(x, axis=1),
        lambda x, edges: xp.digitize(x, xp.asarray(edges)),
        np.asarray if SIMULATED else lambda x: xp.asnumpy(x),
    )


def _torch() -> Library:
    torch = imported("torch")
    on = "cpu" if SIMULATED else "cuda"
    if not SIMULATED and not torch.cuda.is_available():
        raise LackingError("this build of torch finds no CUDA device")

    def taken(array: Any, name: str) -> Any:
        own = torch.from_numpy(array.copy_to_host()) if SIMULATED else array
        return torch.as_tensor(own, device=on).view(getattr(torch, name))

    return Library(
        "torch",
        torch,
        taken,
        lambda x, dtype: x.to(getattr(torch, dtype)),
        lambda x, k: torch.topk(x, k, dim=1, sorted=False).indices,
        lambda x: torch.sort(x, dim=1).values,
        lambda x, edges: torch.bucketize(x, torch.as_tensor(edges, device=on), right=True),
        lambda x: x.cpu().numpy(),
    )


def imported(name: str) -> Any:
    """A module.

    Raises:
        LackingError: it can't be imported, with the reason.
    """
    try:
        return importlib.import_module(name)
    except Exception as e:  # whatever a library that finds no driver raises
        told = " ".join(str(e).split()) or type(e).__name__
        raise LackingError(f"{name} can't be imported: {told[:200]}") from e


def give_back() -> None:
    """Let go of what the libraries and Numba keep of the device for later."""
    if SIMULATED:
        return
    if "cupy" in sys.modules:
        sys.modules["cupy"].get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()
    cuda.current_context().deallocations.clear()


def statistics(
    lib: Library, ref: Any, cand: Any, tolerance: Tolerance, tier: Tier
) -> dict[str, Any]:
    """What a comparison counts of `(samples, width)`, written with whole arrays; on the device."""
    xp = lib.xp
    r, c = lib.cast(ref, "float64"), lib.cast(cand, "float64")
    signed = c - r
    error = xp.abs(signed)
    allowed = tolerance.atol + tolerance.rtol * xp.abs(r)
    is_pair = xp.isfinite(r) & xp.isfinite(c)
    failing = ~(is_pair & (error <= allowed))
    excess = xp.where(error == 0, error, error / allowed)
    known, above = xp.where(is_pair, error, -1.0), xp.where(is_pair, excess, -1.0)
    found = {
        "failing_elements": failing.sum(),
        "failing": failing.sum(axis=1),
        "nonfinite": (~is_pair).sum(),
        "max_error": known.max(),
        "max_error_at": known.argmax(),
        "max_excess": above.max(),
        "max_excess_at": above.argmax(),
        "sum_error": xp.where(is_pair, error, 0.0).sum(),
        "sum_signed": xp.where(is_pair, signed, 0.0).sum(),
    }
    if tier == "gate":
        return found
    return found | _measured(lib, xp.where(is_pair, r, 0.0), xp.where(is_pair, signed, 0.0), known)


def steps(lib: Library, ref: Any, cand: Any) -> dict[str, Any]:
    """The largest distance in steps of a float dtype, of all elements and of those far from 0."""
    size = int(ref.dtype.itemsize)
    lowest = -(1 << (8 * size - 1))
    places = []
    for side in (ref, cand):
        bits = lib.cast(side.view(getattr(lib.xp, WHOLE[size])), "int64")
        places.append(lib.xp.where(bits >= 0, bits, lowest - bits))
    apart = lib.xp.abs(places[0] - places[1])
    is_far = lib.xp.abs(lib.cast(ref, "float64")) >= FAR
    far = lib.xp.where(is_far, apart, 0)
    return {"ulp": apart.max(), "ulp_at": apart.argmax(), "far": far.max(), "far_at": far.argmax()}


def _measured(lib: Library, r: Any, e: Any, known: Any) -> dict[str, Any]:
    xp = lib.xp
    sizes = xp.abs(e).reshape(-1)
    bins = xp.where(sizes == 0, 0, 1 + (sizes.view(xp.int64) >> 49))
    bins = bins[known.reshape(-1) >= 0]
    products = {"squared_errors": e * e, "squared_refs": r * r, "ref_errors": r * e}
    found = {"histogram": xp.bincount(bins, minlength=BINS)}
    found |= {name: values.sum() for name, values in products.items()}
    if r.shape[1] >= RANKED_WIDTH:
        noise, energy, cross = (values.sum(axis=1) for values in products.values())
        length = xp.sqrt(energy * (energy + 2 * cross + noise))
        apart = (energy * noise - cross * cross) / (length * (length + energy + cross))
        ratio = noise / energy
        found |= {
            "noisiest": ratio.max(),
            "noisiest_at": ratio.argmax(),
            "furthest": apart.max(),
            "furthest_at": apart.argmax(),
        }
    return found


def check_same(tally: OutputTally, lib: Library, found: dict[str, Any]) -> None:
    """Both sides of a measurement must have found the same."""
    told = {name: lib.host(value) for name, value in found.items()}
    assert tally.max_abs_error is not None
    assert tally.max_excess is not None
    assert tally.failing_elements == int(told["failing_elements"]), lib.name
    assert float(tally.max_abs_error.value) == float(told["max_error"]), lib.name
    assert float(tally.max_excess.value) == float(told["max_excess"]), lib.name
    if "histogram" in told:
        assert np.array_equal(tally.histogram.all_counts(), told["histogram"]), lib.name
    if "ulp" in told:
        assert tally.max_ulp is not None
        assert int(tally.max_ulp.value) == int(told["ulp"]), lib.name


def flips(lib: Library, ref: Any, cand: Any, kind: str, edges: Sequence[float]) -> Any:
    """How many samples are decided otherwise, on the device; nothing else is counted."""
    if edges:
        bounds = np.array(edges, np.float32)
        return (lib.placed(ref, bounds) != lib.placed(cand, bounds)).sum()
    if kind == "argmax":
        return (ref.argmax(axis=1) != cand.argmax(axis=1)).sum()
    tops = [lib.sorted(lib.top(side, 5)) for side in (ref, cand)]
    return (tops[0] != tops[1]).any(axis=1).sum()
