"""What ONNX Runtime says when it fails, shortened to the sentence that matters."""

from __future__ import annotations

import re

_LIMIT = 300
_WHOLE_LIMIT = 4_000
_HEAD = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_LOADING = re.compile(r"Load model from \S.*? failed: ?")
_RUNNING = re.compile(r"Non-zero status code returned while running (\w+) node\. Name:'([^']*)' ")
_PLACE = re.compile(r"/\S+\.(?:cc|cpp|cu|cuh|h|hpp):\d+ ")
_CONDITION = re.compile(r"^[^.]{1,200}? was false\. (?=\S)")
_OPSET = re.compile(r"ONNX Runtime only \*guarantees\*.*?Opset (\d+) is.*?till opset (\d+)\.?")


def whole_text(error: BaseException) -> str:
    """Class and text of an error on one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:_WHOLE_LIMIT]


def shorten(text: str) -> str:
    """What went wrong, without places in the runtime's source; other texts are only cut."""
    text = _LOADING.sub("", _HEAD.sub("", " ".join(text.split())))
    text = _RUNNING.sub(lambda m: f"{m[1]} node {m[2]!r}: " if m[2] else f"{m[1]} node: ", text)
    text = text.replace("Status Message: ", "")
    text = _OPSET.sub(r"the model is of opset \1, this version takes opsets up to \2", text)
    place = _PLACE.search(text)
    while place is not None:
        rest = _CONDITION.sub("", _after_signature(text[place.end() :]))
        if not rest.strip():
            break
        text = text[: place.start()] + rest
        place = _PLACE.search(text)
    return text if len(text) <= _LIMIT else text[:_LIMIT].rpartition(" ")[0] + " ..."


def _after_signature(text: str) -> str:
    """What follows the C++ function that a text begins with; the text itself where none does."""
    start = text.find("(")
    if start < 0 or "." in text[:start].replace("...", ""):
        return text
    depth = 0
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0 and text[at + 1 : at + 2] != "(":
            return re.sub(r"^( const)?( \[with [^]]*\])?[ :]*", "", text[at + 1 :])
    return text
