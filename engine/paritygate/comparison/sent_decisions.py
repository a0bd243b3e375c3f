"""Decisions of a block whose elements are sent to a GPU: made there of the same pieces."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from paritygate.comparison.decide.base import Codes
from paritygate.comparison.device_pool import RoomError

if TYPE_CHECKING:
    from paritygate.comparison.decide.device_counts import Flipped
    from paritygate.comparison.placed_decisions import Found, PlacedDecisions
    from paritygate.tally.decision import DecisionTally

Batch = tuple[Any, Any, Codes | range, Any]


class SentDecisions:
    """Decides one rule of a block as its pieces come; of one thread.

    Args:
        decisions: of the rule.
        sides: `(samples, *sample_shape)` of the reference and of the candidate, which stay as they
            are while what flipped is asked for.
        numbers: `(samples,)` int64 ordinals; or a range of step 1.
        truth: `(samples,)` int64 as of `DecisionComparer.truth_codes`, or None without labels.

    Attributes:
        truth: as given; it is sent with the pieces.
    """

    def __init__(
        self,
        decisions: PlacedDecisions,
        sides: tuple[Any, Any],
        numbers: Codes | range,
        truth: Codes | None,
    ) -> None:
        self._decisions, self._sides, self._numbers = decisions, sides, numbers
        self.truth = truth
        self._counted: tuple[DecisionTally, Flipped] | None = None
        self._steps: Generator[None, Batch | None, None] = self._decide()
        self._is_lost = self._is_again = False

    @contextmanager
    def begun(self) -> Iterator[None]:
        """Decide all samples anew, of what `add` is given until this ends.

        Raises:
            RoomError: as of `add`.
            DeviceError: the same.
        """
        self._counted, self._steps = None, self._decide()
        try:
            self._go_on(None)
            yield
        finally:
            self._steps.close()

    def add(self, rows: slice, ref: Any, cand: Any, truth: Any) -> None:
        """Decide a piece; nothing is waited for.

        Args:
            rows: its samples.
            ref: on the device, as it lies there for the elements.
            cand: the same.
            truth: labels of these samples, on the device; None without.

        Raises:
            RoomError: there was no room, and memory was given back; said once of a block.
            DeviceError: the GPU failed.
        """
        self._go_on((ref, cand, self._numbers[rows], truth))

    def finish(self) -> None:
        """Read what was decided, once the device is done.

        Raises:
            RoomError: as of `add`.
            DeviceError: the same, or what is listed as flipped can't be.
        """
        self._go_on(None)

    def found(self) -> Found | None:
        """What was decided of all samples; None: the CPU is to decide.

        Raises:
            DeviceError: it doesn't add up.
        """
        if self._counted is None:
            return None
        is_labelled = self.truth is not None
        return self._decisions.made(*self._counted, *self._sides, self._numbers, is_labelled)

    def _decide(self) -> Generator[None, Batch | None, None]:
        with self._decisions.lent() as deciding:
            while (batch := (yield)) is not None:
                deciding.add(*batch)
            self._counted = deciding.finish()

    def _go_on(self, batch: Batch | None) -> None:
        if self._is_lost:
            return
        try:
            self._steps.send(batch)
        except StopIteration:  # all was read
            return
        except Exception as e:  # whatever a driver raises
            if self._decisions.dropped(e) and not self._is_again:
                self._is_again = True
                raise RoomError from e
            self._is_lost = True
            self._decisions.note_no_room()
