"""Runs onnx.checker on one model, in a process that may die of it.

Started as a file, with nothing of paritygate imported. Its answer is one line of JSON on stdout.
"""

import importlib.util
import json
import resource
import sys
from importlib.machinery import PathFinder
from typing import Any

OUTPUT_LIMIT = 16 << 20
MESSAGE_LIMIT = 2000


def main(path: str) -> None:
    """Check the model at `path`, fully, and print `{"ok": ..., "message": ...}`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = OUTPUT_LIMIT if hard == resource.RLIM_INFINITY else min(OUTPUT_LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        _check(path)
        answer = {"ok": True, "message": ""}
    except Exception as e:
        text = f"{e}".strip() or type(e).__name__
        answer = {"ok": False, "message": text[:MESSAGE_LIMIT]}
    sys.stdout.write(json.dumps(answer) + "\n")


def _check(path: str) -> None:
    checker = _compiled_checker()
    if checker is None:
        import onnx.checker

        onnx.checker.check_model(path, full_check=True)
    else:
        checker.check_model_path(path, True, False, False)  # as onnx.checker.check_model does


def _compiled_checker() -> Any:
    """What onnx.checker calls, without the package around it, whose import takes far longer."""
    package = importlib.util.find_spec("onnx")
    folders = package.submodule_search_locations if package else []
    found = PathFinder.find_spec("onnx.onnx_cpp2py_export", folders)
    if found is None or found.loader is None:
        return None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return getattr(module, "checker", None)


if __name__ == "__main__":
    main(sys.argv[1])
