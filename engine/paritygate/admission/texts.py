"""Texts of a model that are none: protobuf hands out bytes that aren't UTF-8 as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from paritygate.admission.errors import AdmissionError

_IGNORED = frozenset({"doc_string"})  # for readers, and read by nobody here


def check_texts(model: onnx.ModelProto, shown: Path) -> None:
    """Refuse names and other texts that aren't UTF-8.

    Raises:
        AdmissionError: naming the first one.
    """
    pending: list[Any] = [model]
    while pending:
        message = pending.pop()
        for name, is_message, is_repeated in _fields(message):
            if is_message:
                if is_repeated:
                    pending.extend(getattr(message, name))
                elif message.HasField(name):
                    pending.append(getattr(message, name))
                continue
            value = getattr(message, name)
            for text in value if is_repeated else (value,):
                if isinstance(text, bytes):
                    raise AdmissionError(
                        f"{shown}: {type(message).__name__}.{name} isn't UTF-8 ({text[:40]!r}); "
                        "export the model again, or check the download"
                    )


_known: dict[str, tuple[tuple[str, bool, bool], ...]] = {}


def _fields(message: Any) -> tuple[tuple[str, bool, bool], ...]:
    """Texts and messages of a message: name, whether it is a message, whether it is repeated."""
    kind = str(message.DESCRIPTOR.full_name)
    if kind not in _known:
        empty = type(message)()
        _known[kind] = tuple(
            (f.name, f.type == f.TYPE_MESSAGE, hasattr(getattr(empty, f.name), "extend"))
            for f in message.DESCRIPTOR.fields
            if f.type in (f.TYPE_STRING, f.TYPE_MESSAGE) and f.name not in _IGNORED
        )
    return _known[kind]
