"""A batch in parts: halved until single samples are left that end the process by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from paritygate.core.dtypes import dtype_name, zeros
from paritygate.core.errors import RunnerError
from paritygate.core.ragged import Ragged, Tensor, row_of
from paritygate.core.tensors import Array, Batch
from paritygate.runners.base import Lease, describe_batch
from paritygate.runners.failures import SampleFailure
from paritygate.runners.isolate.process import End

if TYPE_CHECKING:
    from paritygate.runners.isolate.session import IsolatedSession


class Parts:
    """Answers of a batch that come in parts, and the samples that have none.

    Attributes:
        batch: the whole.
        failures: row -> why it has no answer.
        regrouped: rows that were answered in other batches than the whole.
        unexplained: how a worker ended, where no row of its part has been blamed for it.
    """

    def __init__(self, session: IsolatedSession, batch: Batch) -> None:
        self.batch = batch
        self.failures: dict[int, SampleFailure] = {}
        self.regrouped = 0
        self.unexplained: End | None = None
        self._blamed = 0
        self._session = session
        self._rows: dict[str, list[Array | None]] = {}
        self._present = np.ones(batch.valid, np.bool_)
        self._has_present = False

    def search(self, rows: list[int], end: End) -> None:
        """Find who is to blame among rows that ended the process together, and answer the others.

        Args:
            rows: of the batch.
            end: how they ended it.
        """
        blamed = self._blamed
        if len(rows) == 1:
            self._confirm(rows[0], end)
        else:
            self._halve(rows)
        if blamed == self._blamed:
            self.unexplained = end

    def _halve(self, rows: list[int]) -> None:
        middle = len(rows) // 2
        for half in (rows[:middle], rows[middle:]):
            self.attempt(half)

    def _confirm(self, row: int, end: End) -> None:
        """Run a sample again in a new process: a worker may end for what ran in it before."""
        if self._try([row]) is not None:
            self._blame(row, end)

    def attempt(self, rows: list[int]) -> None:
        """Answer rows; where they end the process, search among them."""
        if rows and (end := self._try(rows)) is not None:
            self.search(rows, end)

    def _try(self, rows: list[int]) -> End | None:
        """Run rows once: they are answered, or fail, or end the process, which is returned."""
        from paritygate.runners.isolate.session import EndedError, WantError

        try:
            lease = self._session.part(self.batch, rows)
        except EndedError as ended:
            return ended.end
        except WantError as e:
            if len(rows) > 1 and self._session.may_search():
                self._halve(rows)
                return None
            self._session.want(len(rows))
            self.failures |= dict.fromkeys(rows, SampleFailure(e.rule, str(e)))
        except RunnerError as e:
            self.failures |= dict.fromkeys(rows, SampleFailure(e.rule, str(e)))
        else:
            self._keep(rows, lease)
        return None

    def _blame(self, row: int, end: End) -> None:
        where = describe_batch(self._session.runner.name, self.batch)
        sample = self.batch.ids[row : row + 1].tolist()[0]
        failure = SampleFailure(end.rule, f"{where}: at id {sample}, alone, {end}")
        self.failures[row] = failure
        self._blamed += 1
        self._session.blame(sample, failure)

    def _keep(self, rows: Sequence[int], lease: Lease) -> None:
        with lease:
            for name, tensor in lease.outputs.items():
                kept = self._rows.setdefault(name, [None] * self.batch.size)
                for at, row in enumerate(rows):
                    kept[row] = np.array(row_of(tensor, at))
            if lease.present is not None:
                self._has_present = True
                self._present[list(rows)] = lease.present
        self.regrouped += len(rows) if len(rows) < self.batch.valid else 0

    def lease(self) -> Lease:
        """All answers; rows that have none hold zeros or empty texts."""
        present = self._present if self._has_present else None
        return Lease({name: _tensor(rows) for name, rows in self._rows.items()}, present)


def _tensor(rows: Sequence[Array | None]) -> Tensor:
    first = next(array for array in rows if array is not None)
    dtype = dtype_name(first.dtype)
    is_alike = all(array is None or array.shape == first.shape for array in rows)
    if is_alike:
        whole: Array = zeros((len(rows), *first.shape), dtype)
        for at, array in enumerate(rows):
            if array is not None:
                whole[at, ...] = array
        whole.flags.writeable = False
        return whole
    nothing = zeros((0,) * first.ndim, dtype)
    return Ragged([nothing if a is None else a for a in rows], first.dtype, first.ndim)
