"""Does each provider of this build do anything here? A small model is run on it, beside us."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paritygate.runners.ort_libraries import MEND, why_not_in_force
from paritygate.runners.ort_load import RECORD_PLACEMENT
from paritygate.runners.ort_observe import OBSERVER, Fed, Observation
from paritygate.runners.ort_options import CPU
from paritygate.runners.ort_text import shorten
from paritygate.runners.ort_warnings import read_warnings

_DEADLINE_S = 60.0
_NODES = 2


def probe_providers(providers: list[str], libraries: Path) -> Iterator[tuple[str, bool, str]]:
    """Run a product and a sum on each provider but the CPU.

    Args:
        providers: those of the build.
        libraries: folder of the build's own libraries.

    Returns:
        Provider, whether it took the nodes, and a sentence.
    """
    others = [name for name in providers if name != CPU]
    if not others:
        return
    with tempfile.TemporaryDirectory(prefix="paritygate-", ignore_cleanup_errors=True) as folder:
        path = Path(folder) / "doctor.onnx"
        path.write_bytes(_small_model())
        for name in others:
            found = OBSERVER.submit(_request(path, name), [_ones()], _DEADLINE_S).result()
            taken = sum(1 for node in found.assigned or () if node[0] == name)
            yield name, taken == _NODES, _sentence(name, taken, found, libraries)


def _sentence(name: str, taken: int, found: Observation, libraries: Path) -> str:
    if found.problem:
        return f"isn't fit for use: {shorten(found.problem)}"
    if name not in found.in_force:
        reason = why_not_in_force(name, libraries)
        if reason:
            return f"is in this build, but not in force here: {reason}; {MEND}"
        told = [w.text for w in read_warnings(found.said) if w.level != "warning"]
        why = f": {shorten(told[0])}" if told else ""
        return f"is in this build, but not in force here{why}"
    if taken < _NODES:
        return f"is in force, but took {taken} of the {_NODES} nodes of a small model"
    return "runs a small model"


def _request(path: Path, provider: str) -> dict[str, Any]:
    return {
        "model": str(path),
        "level": "ORT_DISABLE_ALL",
        "mode": "ORT_SEQUENTIAL",
        "intra": 1,
        "inter": 1,
        "entries": {RECORD_PLACEMENT: "1"},
        "providers": [[provider, {}]],
        "disabled": [],
        "libraries": [],
    }


def _ones() -> Fed:
    import numpy as np
    from onnx import TensorProto

    data = np.ones((4, 8), np.float32)
    return Fed("x", data.shape, data.dtype.str, TensorProto.FLOAT, data.tobytes())


def _small_model() -> bytes:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["p"], name="product"),
            helper.make_node("Add", ["p", "b"], ["y"], name="sum"),
        ],
        "doctor",
        [info("x", TensorProto.FLOAT, ["batch", 8])],
        [info("y", TensorProto.FLOAT, ["batch", 8])],
        [
            numpy_helper.from_array(np.eye(8, dtype=np.float32), "w"),
            numpy_helper.from_array(np.ones(8, np.float32), "b"),
        ],
    )
    opsets = [helper.make_opsetid("", 17)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    return bytes(model.SerializeToString())
