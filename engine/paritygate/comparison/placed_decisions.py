"""Decisions that are made on a GPU, of what lies or was sent there; believed where they add up."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import Any

import numpy as np

from paritygate.comparison.canary import known_sides
from paritygate.comparison.decide.base import Codes
from paritygate.comparison.decide.detail import DecisionDetail, LazyDetail
from paritygate.comparison.decide.device_counts import Flipped
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.decisions_add_up import what_is_told_wrong, what_is_wrong
from paritygate.comparison.decisions_on_device import Deciding, DeviceDecisions
from paritygate.comparison.device_pool import Pool
from paritygate.comparison.place import Place, is_simulated
from paritygate.comparison.placed import consecutive, device_failed, is_out_of_memory
from paritygate.comparison.sent_decisions import SentDecisions
from paritygate.core.errors import DeviceError, ParityError
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Stats
from paritygate.gpu.tensor import DeviceTensor, pieces
from paritygate.tally.decision import DecisionTally

Found = tuple[DecisionTally, LazyDetail]

_KNOWN_SAMPLES, _FEWEST = 40, 3
_KNOWN_ELEMENTS = 1 << 20  # of a batch that is known, unless fewer samples have more
_NO_ROOM = "the GPU had no room for decisions of a block, made on the CPU"
_POSITIONS = 8  # at most along each axis but that of the classes


class PlacedDecisions:
    """Decides one rule of a stage on a GPU: where its output lies, or as its pieces are sent there.

    Args:
        place: the GPU.
        stage: name of the stage.
        rule: of bands, argmax or top-k.
        tolerance: of the output.
        dtypes: names of the reference's and the candidate's.
        shape: of one sample.
        stats: "gate" or "full".

    Raises:
        ValueError: as of `DecisionComparer`, or what isn't decided on a GPU.
        DeviceError: the GPU failed, or decides a known batch otherwise.
    """

    def __init__(
        self,
        place: Place,
        stage: str,
        rule: DecisionRule,
        tolerance: Tolerance,
        dtypes: tuple[str, str],
        shape: tuple[int, ...],
        stats: Stats,
    ) -> None:
        self._place, self._names = place, (stage, rule.name)
        self._output = stage, rule.output
        self._device = DeviceDecisions(rule, tolerance, *dtypes, shape, stats)
        self._pool = Pool(place, self._device.begin)
        self._step_bytes = max(1, int(np.prod(shape)) * np.dtype(np.float64).itemsize)
        self._try_out(rule, tolerance, dtypes, shape, stats)

    def compare_lazily(
        self, ref: Any, cand: Any, ordinals: Codes, truth: Codes | None
    ) -> Found | None:
        """Decide samples; None where one side isn't on the GPU, or its memory is too small.

        Raises:
            DeviceError: the GPU failed, or what it counted doesn't add up.
        """
        begun = self.begin(ref, cand, ordinals, truth)
        return None if begun is None else begun()

    def begin(
        self, ref: Any, cand: Any, ordinals: Codes, truth: Codes | None
    ) -> Callable[[], Found | None] | None:
        """Have a GPU decide samples, without waiting for it.

        Returns:
            What waits, and answers as `compare_lazily`; None where that answers None.

        Raises:
            DeviceError: as of `compare_lazily`.
        """
        if not _both_lie_there(ref, cand) or self._place.is_given_up or not len(ordinals):
            return None
        for is_last in (False, True):
            try:
                return self._launched(ref, cand, consecutive(ordinals), truth)
            except Exception as e:  # whatever a driver raises
                if not self.dropped(e) or is_last:
                    break
        self.note_no_room()
        return None

    def along(
        self, ref: Any, cand: Any, ordinals: Codes, truth: Codes | None
    ) -> SentDecisions | None:
        """What decides samples as they are sent for their elements; None where nothing is sent."""
        if _both_lie_there(ref, cand) or self._place.is_given_up or not len(ordinals):
            return None
        return SentDecisions(self, (ref, cand), consecutive(ordinals), truth)

    def lent(self) -> AbstractContextManager[Deciding]:
        """What decides batches, and has decided none; of one thread."""
        return self._pool.lent()

    def _launched(
        self, ref: Any, cand: Any, numbers: Codes | range, truth: Codes | None
    ) -> Callable[[], Found | None]:
        most = self._place.bytes_at_once(self._output, is_sent=False)
        with ExitStack() as failing:
            deciding = failing.enter_context(self.lent())
            for rows, ours, theirs in pieces(ref, cand, max(1, most // self._step_bytes)):
                part = None if truth is None else truth[rows]
                deciding.add(ours, theirs, numbers[rows], part)
            use = failing.pop_all()
        is_labelled = truth is not None
        return partial(self._finish, use, deciding, ref, cand, numbers, is_labelled)

    def dropped(self, error: Exception) -> int:
        """Bytes that were given back since there was no room.

        Raises:
            DeviceError: there was another fault.
        """
        if not is_out_of_memory(error):
            raise self._failed(error) from error
        return self._place.drop_idle()

    def note_no_room(self) -> None:
        """Tell that the CPU decides a block."""
        self._place.note(_NO_ROOM)

    def _finish(self, use: ExitStack, deciding: Deciding, *given: Any) -> Found | None:
        try:
            with use:
                tally, flipped = deciding.finish()
        except Exception as e:  # whatever a driver raises
            self.dropped(e)
            self.note_no_room()
            return None
        return self.made(tally, flipped, *given)

    def made(
        self,
        tally: DecisionTally,
        flipped: Flipped,
        ref: Any,
        cand: Any,
        numbers: Codes | range,
        is_labelled: bool,
    ) -> Found:
        """What a GPU has decided of samples, which is counted as such.

        Args:
            tally: as it was counted.
            flipped: as they were listed.
            ref: `(samples, *sample_shape)`, which stays as it is while what flipped is asked for.
            cand: the same.
            numbers: `(samples,)` ordinals.
            is_labelled: whether there were labels.

        Raises:
            DeviceError: it doesn't add up.
        """
        problem = what_is_wrong(tally, flipped.rows, numbers)
        if not problem and (tally.labels is None) == is_labelled:
            problem = "it counted no labels, or some where there were none"
        if problem:
            raise self._failed(problem)
        self._place.count_decided(*self._names, "cuda", len(numbers))
        return tally, self._detail(flipped, ref, cand)

    def _detail(self, flipped: Flipped, ref: Any, cand: Any) -> LazyDetail:
        def look(rows: Codes) -> DecisionDetail:
            found = self._device.look_at(rows, ref, cand)
            problem = what_is_told_wrong(flipped.rows, flipped.margins, rows, found)
            if problem:
                raise self._failed(problem)
            return found

        return LazyDetail(flipped.rows, flipped.margins, look)

    def _try_out(self, *given: Any) -> None:
        for is_last in (False, True):
            try:
                self._decide_known(*given)
                return
            except ParityError:
                raise
            except Exception as e:  # whatever a driver raises
                if not self.dropped(e) or is_last:
                    break
        self._place.give_up("had no room for a first small batch")

    def _decide_known(
        self,
        rule: DecisionRule,
        tolerance: Tolerance,
        dtypes: tuple[str, str],
        shape: tuple[int, ...],
        stats: Stats,
    ) -> None:
        known = known_shape(shape, rule, 2 if is_simulated() else _POSITIONS)
        width = int(np.prod(known))
        samples = max(_FEWEST, min(_KNOWN_SAMPLES, _KNOWN_ELEMENTS // max(1, width)))
        sides = known_sides(samples, width, dtypes)
        ref, cand = (side.reshape(samples, *known) for side in sides)
        host = DecisionComparer(rule, tolerance, *dtypes, known, stats)
        expected, detail = host.compare(ref, cand, np.arange(samples))
        device = DeviceDecisions(rule, tolerance, *dtypes, known, stats)
        try:
            found, lazy = device.compare_lazily(ref, cand, range(samples))
        except DeviceError as e:  # what it counted contradicts itself
            raise self._wrong(f"wrong ({e})") from e
        is_same = (
            found.to_json() == expected.to_json()
            and np.array_equal(lazy.flipped_rows, detail.flipped_rows)
            and np.array_equal(lazy.flip_margins, detail.flip_margins, equal_nan=True)
        )
        if not is_same:
            raise self._wrong("otherwise than the CPU")

    def _wrong(self, how: str) -> DeviceError:
        return DeviceError(
            f"the GPU decides {self._names[1]!r} of a batch that is known {how}; its driver or "
            "what compiles for it is broken: use --compare-on cpu"
        )

    def _failed(self, why: object) -> DeviceError:
        stage, decision = self._names
        return device_failed(f"stage {stage!r}, decision {decision!r}", self._place, why)


def _both_lie_there(ref: Any, cand: Any) -> bool:
    return isinstance(ref, DeviceTensor) and isinstance(cand, DeviceTensor)


def known_shape(shape: tuple[int, ...], rule: DecisionRule, most: int) -> tuple[int, ...]:
    """The shape of a known sample: as many classes, and few positions, side by side as there."""
    has_classes = rule.argmax or rule.topk is not None
    own = (rule.axis - 1 if rule.axis > 0 else len(shape) + rule.axis) if has_classes else -1
    return tuple(n if axis == own else min(n, most) for axis, n in enumerate(shape))
