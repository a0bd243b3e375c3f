"""Runs onnx.checker on one model, in a process that may die of it.

Started as a file, with nothing of paritygate imported. Its answer is one line of JSON on stdout.
"""

import json
import resource
import sys

OUTPUT_LIMIT = 16 << 20
MESSAGE_LIMIT = 2000


def main(path: str) -> None:
    """Check the model at `path`, fully, and print `{"ok": ..., "message": ...}`."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    limit = OUTPUT_LIMIT if hard == resource.RLIM_INFINITY else min(OUTPUT_LIMIT, hard)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    import onnx.checker

    try:
        onnx.checker.check_model(path, full_check=True)
        answer = {"ok": True, "message": ""}
    except Exception as e:
        text = f"{e}".strip() or type(e).__name__
        answer = {"ok": False, "message": text[:MESSAGE_LIMIT]}
    sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
