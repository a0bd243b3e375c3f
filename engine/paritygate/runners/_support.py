"""Tries to load models under ONNX Runtime, in a process of its own; says what it says.

Started as a file, with nothing of paritygate imported. Models come on stdin as a line of JSON, a
list of base64; the answer is a line of JSON on stdout.
"""

import base64
import json
import sys


def main() -> None:
    """Load each model and print the version, and what was raised for each, "" for nothing."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.log_severity_level = 4
    said = []
    for text in json.loads(sys.stdin.readline()):
        try:
            ort.InferenceSession(
                base64.b64decode(text), options, providers=["CPUExecutionProvider"]
            )
            said.append("")
        except Exception as e:
            said.append(str(e)[:4000])
    sys.stdout.write(json.dumps({"version": str(ort.__version__), "said": said}) + "\n")


if __name__ == "__main__":
    main()
