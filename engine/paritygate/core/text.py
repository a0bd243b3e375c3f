"""Text of unknown origin, such as ids, as one line that no terminal acts on."""

from __future__ import annotations


def clean(value: object) -> str:
    """Write text of unknown origin on one line: line breaks and control characters escaped."""
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else _escaped(c) for c in text)


def clean_lines(text: str) -> str:
    """Write a text of several lines of ours; other control characters escaped."""
    return "\n".join(clean(line) for line in text.split("\n"))


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
