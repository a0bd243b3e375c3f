"""What runtimes print, as warnings: without times and addresses, each once with how often."""

from __future__ import annotations

import re

from msgspec import Struct

MAX_WARNINGS = 50
MAX_TEXT = 600
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
# "2026-11-29 23:09:42.055473799 [W:onnxruntime:, session_state.cc:1327 Function] text"
_LOGGED = re.compile(
    r"^\s*(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? )?"
    r"\[(?P<severity>[VIWEF]):(?P<logger>[^,\]]*), (?P<place>[^\]]*)\] ?(?P<text>.*)$"
)
_STAMP = re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?Z?\s*")
_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,16}\b")
_LINE_NUMBER = re.compile(r":\d+(?= |$)")
_LEVELS = {"E": "error", "F": "fatal", "W": "warning", "I": "info", "V": "verbose"}


class Warned(Struct, frozen=True):
    """One kind of message.

    Attributes:
        level: "warning", "error", "fatal", or "output" for what isn't of ONNX Runtime's log.
        text: the message.
        place: source file and function in the runtime; empty where not told.
        count: how often it came.
    """

    level: str
    text: str
    place: str
    count: int

    def to_json(self) -> dict[str, object]:
        """The same, of JSON types; without what is empty."""
        told: dict[str, object] = {"level": self.level, "text": self.text, "count": self.count}
        return {**told, "place": self.place} if self.place else told


def read_warnings(said: str, cut: int = 0) -> tuple[Warned, ...]:
    """Messages in what a runtime printed, in the order of their first appearance.

    Args:
        said: what was printed.
        cut: bytes that are missing at its end.
    """
    counts: dict[tuple[str, str, str], int] = {}
    for key in _messages(said):
        counts[key] = counts.get(key, 0) + 1
    kept = [Warned(*key, count) for key, count in list(counts.items())[:MAX_WARNINGS]]
    left = sum(list(counts.values())[MAX_WARNINGS:])
    if left:
        kept.append(Warned("output", f"{left} more messages of other kinds", "", 1))
    if cut:
        kept.append(Warned("output", f"{cut} more bytes were printed and not read", "", 1))
    return tuple(kept)


def _messages(said: str) -> list[tuple[str, str, str]]:
    """Level, text and place of each message; lines after a logged one that belong to it join it."""
    found: list[tuple[str, list[str], str]] = []
    is_open = False
    for raw in said.splitlines():
        line = _COLOUR.sub("", raw).rstrip()
        logged = _LOGGED.match(line)
        if logged is not None:
            level = _LEVELS[logged["severity"]]
            found.append((level, [logged["text"]], _LINE_NUMBER.sub("", logged["place"])))
            is_open = not raw.rstrip().endswith("\x1b[m")
        elif is_open and line.strip():
            found[-1][1].append(line.strip())
            is_open = not raw.rstrip().endswith("\x1b[m")
        elif line.strip():
            found.append(("output", [_STAMP.sub("", line.strip())], ""))
    return [(level, _plain(" ".join(parts)), place) for level, parts, place in found]


def _plain(text: str) -> str:
    text = " ".join(_ADDRESS.sub("0x..", text).split())
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}..."
