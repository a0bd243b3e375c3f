"""Which opsets and which IR version the installed ONNX Runtime takes: asked, not looked up.

It is asked in a process of its own, since the first session of a process decides on denormals.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from msgspec import Struct
from onnx import TensorProto, helper

_CHILD = Path(__file__).with_name("_support.py")
_PATIENCE_S = 60.0
_BEYOND = 9_999
_IR = re.compile(r"max supported IR version: (\d+)")
_OPSET = re.compile(r"till opset (\d+)")


class Support(Struct, frozen=True):
    """What a runtime takes; None where it doesn't say.

    Attributes:
        version: of onnxruntime.
        max_ir: the newest IR version.
        max_opset: the newest opset of `ai.onnx`.
        max_ml_opset: the newest opset of `ai.onnx.ml`.
    """

    version: str
    max_ir: int | None
    max_opset: int | None
    max_ml_opset: int | None


@cache
def installed_support() -> Support | None:
    """What the installed ONNX Runtime takes; None where there is none, or it doesn't answer."""
    models = [_model(_BEYOND, 7), _model(3, _BEYOND), _model(3, 7, _BEYOND)]
    request = json.dumps([base64.b64encode(m).decode() for m in models])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    try:
        done = subprocess.run(
            [sys.executable, "-P", str(_CHILD)],
            input=request + "\n",
            capture_output=True,
            text=True,
            env=env,
            timeout=_PATIENCE_S,
            check=True,
        )
        answer = json.loads(done.stdout.splitlines()[-1])
        ir, opset, ml = answer["said"]
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, IndexError):
        return None
    return Support(answer["version"], _number(_IR, ir), _number(_OPSET, opset), _number(_OPSET, ml))


def _number(pattern: re.Pattern[str], said: str) -> int | None:
    found = pattern.search(said)
    return int(found.group(1)) if found else None


def _model(ir_version: int, opset: int, ml_opset: int | None = None) -> bytes:
    """`y = x` under these versions."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    imports = [helper.make_opsetid("", opset)]
    imports += [helper.make_opsetid("ai.onnx.ml", ml_opset)] if ml_opset is not None else []
    made = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    return bytes(made.SerializeToString())
