"""Two answers to the same samples, compared and counted piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from paritygate.comparison.comparers import make_comparer
from paritygate.comparison.rows import Ints, SampleRows
from paritygate.core.dtypes import dtype_name, is_float
from paritygate.core.plan import Stage
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Array
from paritygate.tally.coupling import Measured
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import FIRST

_EXACT = Tolerance(nonfinite="match")


class Measure:
    """One output; every sample's answer on both sides is an array."""

    def __init__(self, output: str, allowed: Tolerance | None, stage: Stage | None) -> None:
        """Begin.

        Args:
            output: its name.
            allowed: by what it is judged; None: by the stage's tolerance.
            stage: whose tolerance scales the effect.
        """
        self._output = output
        self._allowed = allowed
        self._stage = stage
        self._rule: Tolerance = allowed or _EXACT
        self._tally: OutputTally | None = None
        self._scaled: OutputTally | None = None
        self._first: list[int | str] = []
        self._layouts: tuple[str, str] | None = None

    def add(self, ref: Sequence[Array], cand: Sequence[Array], samples: SampleRows) -> None:
        """Compare the samples' answers, in pack order."""
        for places, left, right in self._alike(ref, cand, samples):
            names = dtype_name(left.dtype), dtype_name(right.dtype)
            shape = tuple(left.shape[1:])
            ordinals = samples.ordinals[places]
            scale = (
                self._stage.tolerance(self._output, is_float=is_float(names[0]))
                if self._stage
                else None
            )
            if self._allowed is None:
                self._rule = scale or _EXACT
            comparer = make_comparer(self._rule, *names, shape, "gate")
            tally, detail = comparer.compare(left, right, ordinals)
            self._tally = tally if self._tally is None else self._tally.merge(tally)
            bad = places[detail.failed()[0]]
            self._first += samples.ids[bad[: FIRST - len(self._first)]].tolist()
            if scale is not None and self._allowed is not None:
                scaled, _ = make_comparer(scale, *names, shape, "gate").compare(
                    left, right, ordinals
                )
                self._scaled = scaled if self._scaled is None else self._scaled.merge(scaled)

    def _alike(
        self, ref: Sequence[Array], cand: Sequence[Array], samples: SampleRows
    ) -> Iterator[tuple[Ints, Array, Array]]:
        """Places of samples of one layout, with their answers stacked; others are kept in mind."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for at, (left, right) in enumerate(zip(ref, cand, strict=True)):
            if (left.dtype, left.shape) == (right.dtype, right.shape):
                groups.setdefault((left.dtype, left.shape), []).append(at)
            elif self._layouts is None:
                self._layouts = _layout(left), _layout(right)
                self._first = samples.ids[at : at + 1].tolist()
        for places in groups.values():
            yield (
                np.array(places, np.int64),
                np.stack([ref[at] for at in places]),
                np.stack([cand[at] for at in places]),
            )

    def result(self) -> Measured:
        """What was found."""
        return Measured(
            self._rule,
            self._tally,
            self._scaled,
            self._stage.name if self._stage is not None else None,
            tuple(self._first),
            self._layouts,
        )


def _layout(array: Array) -> str:
    return f"{dtype_name(array.dtype)}{list(array.shape)}"
