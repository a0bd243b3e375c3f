"""Ids of CSV files, in which everything is text: a number is one only where it is written so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from paritygate.core.errors import GoldenError
from paritygate.golden.build import Piece

_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"


class CsvIds:
    """The ids of one column over all pieces: int64 if those of the first piece are, else texts.

    `007` is no number, since it would come back as 7.
    """

    def __init__(self, column: str) -> None:
        self._column = column
        self._are_numbers: bool | None = None

    def read(self, piece: Piece) -> Piece:
        """The piece with its ids in their type.

        Raises:
            GoldenError: an id that is empty, or no number where the first ones are.
        """
        at = piece.rows.schema.get_field_index(self._column)
        if at < 0 or piece.rows.schema.field(at).type != pa.string():
            return piece
        texts: Any = piece.rows.column(at)
        is_empty = pc.equal(texts, pa.scalar(""))
        self._refuse(piece, is_empty, "is empty; give every sample an id")
        is_number = pc.match_substring_regex(texts, _NUMBER)
        if self._are_numbers is None:
            self._are_numbers = bool(pc.all(is_number, min_count=0).as_py())
        if not self._are_numbers:
            return piece
        told = "is no number as the first ids are; write the ids as text into a Parquet file"
        self._refuse(piece, pc.invert(is_number), told)
        ids = texts.cast(pa.int64())
        rows = piece.rows.set_column(at, self._column, ids)
        return Piece(piece.source, piece.row, rows)

    def _refuse(self, piece: Piece, wrong: Any, told: str) -> None:
        places = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
        if places.size:
            at = int(places[0])
            text = piece.rows.column(self._column)[at].as_py()
            where = f"{piece.source}: column {self._column!r}, row {piece.row + at}"
            raise GoldenError(f"{where}: the id {text!r} {told}", "golden.value")
