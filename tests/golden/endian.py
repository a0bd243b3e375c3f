"""Turn Arrow IPC bytes into what a big-endian machine writes; columns of eight-byte numbers only.

The schema's FlatBuffers table is given a new table of fields behind the message, with the field
that says "big". Laid out by Arrow's Schema.fbs, Message.fbs and File.fbs.
"""

from __future__ import annotations

import struct

import numpy as np

_SCHEMA_IN_MESSAGE, _SCHEMA_IN_FOOTER = 2, 1


def big_endian_stream(content: bytes) -> bytes:
    """The stream with its numbers swapped and its schema saying so."""
    parts, at = [], 0
    while content[at : at + 8] != b"\xff\xff\xff\xff" + bytes(4):
        size = struct.unpack_from("<i", content, at + 4)[0]
        message = content[at + 8 : at + 8 + size]
        body_at = at + 8 + size
        length = _body_length(message)
        if parts:
            body = np.frombuffer(content[body_at : body_at + length], "<i8").byteswap().tobytes()
            parts.append(content[at:body_at] + body)
        else:
            swapped = _say_big(message, _SCHEMA_IN_MESSAGE)
            parts.append(struct.pack("<Ii", 0xFFFFFFFF, len(swapped)) + swapped)
        at = body_at + length
    return b"".join(parts) + content[at:]


def big_endian_file(content: bytes) -> bytes:
    """The file with its numbers swapped and the schema in its footer saying so."""
    size = struct.unpack_from("<i", content, len(content) - 10)[0]
    footer_at = len(content) - 10 - size
    whole = bytearray(content[:footer_at])
    at, number = 8, 0
    while whole[at : at + 8] != b"\xff\xff\xff\xff" + bytes(4):
        head = 8 + struct.unpack_from("<i", whole, at + 4)[0]
        length = _body_length(bytes(whole[at + 8 : at + head]))
        if number:
            body = bytes(whole[at + head : at + head + length])
            whole[at + head : at + head + length] = np.frombuffer(body, "<i8").byteswap().tobytes()
        at, number = at + head + length, number + 1
    footer = _say_big(content[footer_at : footer_at + size], _SCHEMA_IN_FOOTER)
    return bytes(whole) + footer + struct.pack("<i", len(footer)) + b"ARROW1"


def _field(table: bytes, at: int, slot: int) -> int:
    """Place of a field, or 0 where it isn't there."""
    vtable = at - struct.unpack_from("<i", table, at)[0]
    if struct.unpack_from("<H", table, vtable)[0] < 6 + 2 * slot:
        return 0
    offset = struct.unpack_from("<H", table, vtable + 4 + 2 * slot)[0]
    return at + offset if offset else 0


def _body_length(message: bytes) -> int:
    at = _field(message, struct.unpack_from("<I", message)[0], 3)
    return struct.unpack_from("<q", message, at)[0] if at else 0


def _say_big(message: bytes, slot: int) -> bytes:
    place = _field(message, struct.unpack_from("<I", message)[0], slot)
    schema = place + struct.unpack_from("<I", message, place)[0]
    old = schema - struct.unpack_from("<i", message, schema)[0]
    fields = bytearray(message[old : old + struct.unpack_from("<H", message, old)[0]])
    changed = bytearray(message) + bytes(-len(message) % 8)
    vtable = len(changed)
    endianness = vtable + len(fields)
    struct.pack_into("<H", fields, 4, endianness - schema)
    changed += fields + struct.pack("<h", 1)
    changed += bytes(-len(changed) % 8)
    struct.pack_into("<i", changed, schema, schema - vtable)
    return bytes(changed)
