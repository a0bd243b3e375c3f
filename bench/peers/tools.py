"""What each tool is asked, and how its answer is read."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from bench.peers import ours
from bench.peers.given import Answer, Given, Pair

BLOCK = 32_768  # elements that NumPy's temporaries hold within a core's cache
MOST_OF_POLYGRAPHY = 10_000_000


@dataclass(frozen=True)
class Tool:
    """One row of each table.

    Attributes:
        name: of the row.
        finds: what it finds out.
        prepare: the work to be timed, made of the arrays.
        read: its answer, from what the work gives.
        module: what has to be installed.
        most: elements beyond which it isn't asked.
        is_rounded: its numbers come from a text, or from sums in the dtype of the arrays.
    """

    name: str
    finds: str
    prepare: Callable[[Pair], Callable[[], Any]]
    read: Callable[[Any], Answer]
    module: str = "numpy"
    most: int | None = None
    is_rounded: bool = False

    def takes(self, given: Given) -> bool:
        """Whether it is asked at all."""
        return self.most is None or given.elements <= self.most


def statistics(ref: Any, cand: Any, atol: float, rtol: float) -> dict[str, Any]:
    """What the gate tier finds out, with whole arrays of NumPy."""
    is_float = ref.dtype.kind == "f"
    wide = np.float64 if is_float else np.int32
    r = ref.astype(wide)
    signed = cand.astype(wide) - r
    error = np.abs(signed)
    allowed = atol + rtol * np.abs(r)
    with np.errstate(divide="ignore", invalid="ignore"):
        excess = error / allowed
    failing = ~(error <= allowed)
    nonfinite = int((~np.isfinite(signed)).sum()) if is_float else 0
    worst, most = int(error.argmax()), int(excess.argmax())
    return {
        "failing": int(np.count_nonzero(failing)),
        "failing_samples": int(np.count_nonzero(failing.any(axis=1))),
        "nonfinite": nonfinite,
        "max_error": (worst, float(error.reshape(-1)[worst])),
        "max_excess": (most, float(excess.reshape(-1)[most])),
        "sums": (float(error.sum()), float(signed.sum())),
    }


def in_blocks(pair: Pair) -> dict[str, Any]:
    """The same, block by block."""
    return _in_blocks(statistics, pair.ref, pair.cand, pair)


def _in_blocks(
    finds: Callable[[Any, Any, float, float], dict[str, Any]], ref: Any, cand: Any, pair: Pair
) -> dict[str, Any]:
    rows = max(1, BLOCK // pair.ref.shape[1])
    found: dict[str, Any] | None = None
    for at in range(0, len(pair.ref), rows):
        one = finds(ref[at : at + rows], cand[at : at + rows], pair.atol, pair.rtol)
        found = one if found is None else merged(found, one, at * pair.ref.shape[1])
    assert found is not None
    return found


def merged(found: dict[str, Any], one: dict[str, Any], base: int) -> dict[str, Any]:
    """Statistics of two parts, of which `one` begins at the element `base`."""
    both = {name: found[name] + one[name] for name in ("failing", "failing_samples", "nonfinite")}
    for name in ("max_error", "max_excess"):
        at, value = one[name]
        both[name] = (base + at, value) if value > found[name][1] else found[name]
    pairs = zip(found["sums"], one["sums"], strict=True)
    both["sums"] = tuple(mine + theirs for mine, theirs in pairs)
    return both


def torch_statistics(ref: Any, cand: Any, atol: float, rtol: float) -> dict[str, Any]:
    """The same with tensors, on as many threads as torch takes."""
    torch = importlib.import_module("torch")
    wide = torch.float64 if ref.dtype.is_floating_point else torch.int32
    r = ref.to(wide)
    signed = cand.to(wide) - r
    error = signed.abs()
    allowed = atol + rtol * r.abs()
    excess = error / allowed
    failing = ~(error <= allowed)
    nonfinite = int((~torch.isfinite(signed)).sum()) if ref.dtype.is_floating_point else 0
    worst, most = int(error.argmax()), int(excess.argmax())
    return {
        "failing": int(failing.sum()),
        "failing_samples": int(failing.any(dim=1).sum()),
        "nonfinite": nonfinite,
        "max_error": (worst, float(error.reshape(-1)[worst])),
        "max_excess": (most, float(excess.reshape(-1)[most])),
        "sums": (float(error.sum()), float(signed.sum())),
    }


def of_statistics(found: dict[str, Any]) -> Answer:
    """What such statistics say."""
    failing = found["failing"]
    return Answer(failing == 0, failing, found["max_error"][1], found["sums"][0])


def _tensors(pair: Pair) -> tuple[Any, Any]:
    torch = importlib.import_module("torch")
    return torch.from_numpy(pair.ref), torch.from_numpy(pair.cand)


def _with_torch(pair: Pair) -> Callable[[], Any]:
    ref, cand = _tensors(pair)
    return lambda: torch_statistics(ref, cand, pair.atol, pair.rtol)


def _with_torch_in_blocks(pair: Pair) -> Callable[[], Any]:
    ref, cand = _tensors(pair)
    return lambda: _in_blocks(torch_statistics, ref, cand, pair)


def _isclose(pair: Pair) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    ref, cand = _tensors(pair)
    return lambda: int((~torch.isclose(cand, ref, atol=pair.atol, rtol=pair.rtol)).sum())


def _assert_close(pair: Pair) -> Callable[[], Any]:
    torch = importlib.import_module("torch")
    ref, cand = _tensors(pair)
    judge = torch.testing.assert_close
    return lambda: _message(lambda: judge(cand, ref, atol=pair.atol, rtol=pair.rtol))


def _assert_allclose(pair: Pair) -> Callable[[], Any]:
    judge = np.testing.assert_allclose
    return lambda: _message(lambda: judge(pair.cand, pair.ref, atol=pair.atol, rtol=pair.rtol))


def _message(judge: Callable[[], object]) -> str:
    try:
        judge()
    except AssertionError as error:
        return str(error)
    return ""


def _of_message(text: str) -> Answer:
    """Of the texts of NumPy and torch: what differs, and by how much at most."""
    if not text:
        return Answer(passes=True, failing=0)
    failing = re.search(r"Mismatched elements: (\d+) /", text)
    most = re.search(r"(?:Max|Greatest) absolute difference[^:]*: ([0-9.e+-]+)", text)
    assert failing
    assert most
    return Answer(False, int(failing[1]), float(most[1]))


def _polygraphy(pair: Pair) -> Callable[[], Any]:
    comparator = importlib.import_module("polygraphy.comparator")
    logger = importlib.import_module("polygraphy.logger").G_LOGGER
    logger.module_severity = logger.CRITICAL
    rule = comparator.SimpleCompareFunc(atol=pair.atol, rtol=pair.rtol)
    # The tolerance is relative to the second one.
    sides = [comparator.IterationResult({"y": y}, runtime=0.0) for y in (pair.cand, pair.ref)]
    return lambda: rule(*sides)["y"]


def _of_polygraphy(found: Any) -> Answer:
    return Answer(passes=bool(found), max_error=float(found.max_absdiff))


GATE, NUMPY, TORCH = "paritygate, gate tier", "NumPy, same statistics", "torch, same statistics"
BLOCKED, TORCH_BLOCKED = f"{NUMPY} in blocks", f"{TORCH} in blocks"
FUNCTOR = "Polygraphy `SimpleCompareFunc`"
SAME = "failing elements and samples, what isn't finite, largest error and excess, sums"

TOOLS: tuple[Tool, ...] = (
    Tool(GATE, SAME, lambda pair: ours.compare(pair, "gate"), ours.read),
    Tool(
        "paritygate, gate tier, one core",
        SAME,
        lambda pair: ours.compare(pair, "gate", one_core=True),
        ours.read,
    ),
    Tool(
        "paritygate, full tier",
        "the same, and RMSE, SQNR, cosine, ULP, quantiles, worst samples",
        lambda pair: ours.compare(pair, "full"),
        ours.read,
    ),
    Tool(
        NUMPY,
        SAME,
        lambda pair: lambda: statistics(pair.ref, pair.cand, pair.atol, pair.rtol),
        of_statistics,
    ),
    Tool(BLOCKED, SAME, lambda pair: lambda: in_blocks(pair), of_statistics),
    Tool(
        "`np.testing.assert_allclose`",
        "pass or fail; failing elements and largest error where it fails",
        _assert_allclose,
        _of_message,
        is_rounded=True,
    ),
    Tool(TORCH, SAME, _with_torch, of_statistics, "torch"),
    Tool(TORCH_BLOCKED, SAME, _with_torch_in_blocks, of_statistics, "torch"),
    Tool(
        "`torch.isclose`",
        "failing elements",
        _isclose,
        lambda failing: Answer(failing == 0, failing),
        "torch",
    ),
    Tool(
        "`torch.testing.assert_close`",
        "pass or fail; failing elements and largest error where it fails",
        _assert_close,
        _of_message,
        "torch",
        is_rounded=True,
    ),
    Tool(
        FUNCTOR,
        "pass or fail (absolute or relative), largest, mean and median error",
        _polygraphy,
        _of_polygraphy,
        "polygraphy",
        MOST_OF_POLYGRAPHY,
    ),
)
