"""What other tools say to the same rows: `python -m tests.conformance.peers` records it.

A tool is given the arrays and the tolerance of a row, in the way that its users call it; it knows
no ids and no decisions. What is recorded is its own answer, not whether it should have one.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tests.conformance.case import Case
from tests.conformance.recordings import Pair

RECORD = Path(__file__).with_name("peers.json")
PASSES, FAILS = "passes", "fails"

Judge = Callable[[Any, Any, float, float], bool]


def _numpy_testing(ref: Any, cand: Any, atol: float, rtol: float) -> bool:
    try:
        np.testing.assert_allclose(cand, ref, rtol=rtol, atol=atol)
    except AssertionError:
        return False
    return True


def _numpy_allclose(ref: Any, cand: Any, atol: float, rtol: float) -> bool:
    return bool(np.allclose(cand, ref, rtol=rtol, atol=atol))


def _torch(ref: Any, cand: Any, atol: float, rtol: float) -> bool:
    torch = importlib.import_module("torch")
    given = [torch.from_numpy(np.ascontiguousarray(side)) for side in (cand, ref)]
    try:
        torch.testing.assert_close(*given, rtol=rtol, atol=atol)
    except AssertionError:
        return False
    return True


def _polygraphy(ref: Any, cand: Any, atol: float, rtol: float) -> bool:
    comparator = importlib.import_module("polygraphy.comparator")
    results = comparator.RunResults()
    for name, side in (("ref", ref), ("cand", cand)):
        # It compares the first runner's outputs with the second's, scaled by the second's.
        results.append((name, [comparator.IterationResult({"y": side}, runtime=0.0)]))
    pairs = [(1, 0)]
    rule = comparator.CompareFunc.simple(atol=atol, rtol=rtol)
    found = comparator.Comparator.compare_accuracy(results, compare_func=rule, comparisons=pairs)
    return bool(found)


TOOLS: Mapping[str, tuple[str, Judge]] = {
    "`np.testing.assert_allclose`": ("numpy", _numpy_testing),
    "`np.allclose`": ("numpy", _numpy_allclose),
    "`torch.testing.assert_close`": ("torch", _torch),
    "Polygraphy `CompareFunc.simple`": ("polygraphy", _polygraphy),
}


def key_of(case: Case) -> str:
    """Key of a row in the record."""
    return f"{case.kind}: {case.name}"


def ask(tool: str, given: Pair) -> str:
    """One tool's answer to a row: `passes`, `fails`, or `raises` with the kind of error."""
    _, judge = TOOLS[tool]
    ref, cand = np.asarray(given.ref), np.asarray(given.cand)
    try:
        with np.errstate(all="ignore"):
            good = judge(ref, cand, given.atol or 0.0, given.rtol or 0.0)
    except Exception as error:
        return f"raises {type(error).__name__}"
    return PASSES if good else FAILS


def load() -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Versions of the packages, and answers by row and tool."""
    data = json.loads(RECORD.read_text(encoding="utf-8"))
    return data["versions"], data["answers"]


def main() -> None:
    """Ask every tool about every row that is a pair of arrays, and write the record."""
    from tests.conformance.table import ROWS

    packages = dict.fromkeys(package for package, _ in TOOLS.values())
    versions = {package: importlib.metadata.version(package) for package in packages}
    answers = {
        key_of(case): {tool: ask(tool, case.given) for tool in TOOLS}
        for case in ROWS
        if isinstance(case.given, Pair)
    }
    text = json.dumps({"versions": versions, "answers": answers}, indent=1, ensure_ascii=False)
    RECORD.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
