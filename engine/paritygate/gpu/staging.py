"""Arrays of the host on their way to a device: copied while those before them are judged.

Kernels run on the default stream. Copies run on a stream of their own, which doesn't wait for that
one, from pinned memory; events keep both apart. A buffer of the host is filled again once it has
been copied, and one of the device once what it held has been judged. What the device has before and
after it judges is summed up there, and held against what the host read.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from paritygate.core.errors import DeviceError
from paritygate.gpu.checksum import MODULUS
from paritygate.gpu.device import SIMULATED, cuda
from paritygate.gpu.proof import Checksums, stamp_of
from paritygate.kernels.checksum import WORD, copy_summed

BUFFERS = 2
_ALIGNED = 256  # bytes: where an array begins on the device
_LEAST = 1 << 16
_BEFORE, _AFTER = 0, 1

Bytes = npt.NDArray[np.uint8]


class Buffer(NamedTuple):
    """Memory of the host and, as much, of the device that it is copied to.

    Attributes:
        host: bytes.
        device: bytes.
        copied: the device has them.
        judged: the device needs them no more.
    """

    host: Bytes
    device: Any
    copied: Any
    judged: Any


class Sent(NamedTuple):
    """What lies in a buffer: its words, their sum, and the stamp of this piece."""

    buffer: Buffer
    words: int
    total: int
    stamp: int


class Lane:
    """Sends pieces to the current device; one thread at a time.

    Args:
        ask: told of bytes of the device and of pinned memory that are taken, or given back.
        note: told what was done otherwise than meant.
    """

    def __init__(self, ask: Callable[[int, int], None], note: Callable[[str], None]) -> None:
        self._ask, self._note = ask, note
        self._buffers: list[Buffer] = []
        self._held = 0, 0
        self._is_pinned = True
        self._stream: Any = None
        self._sums: Checksums | None = None
        self._turn = self._serial = 0

    def send(self, arrays: Sequence[npt.NDArray[Any]]) -> tuple[list[Any], Sent]:
        """Copy arrays to the device, where what is launched next finds them.

        Args:
            arrays: C-contiguous, in dtypes that a device has; free once this returns.

        Returns:
            arrays of the device, of the same dtypes and shapes, until `judged` is told; and what
            that is to be told.
        """
        starts, size = [], 0
        for array in arrays:
            starts.append(size)
            size += -(-array.nbytes // _ALIGNED) * _ALIGNED
        self._make_room(size)
        buffer = self._buffers[self._turn]
        self._turn = (self._turn + 1) % len(self._buffers)
        buffer.copied.synchronize()
        sent = Sent(buffer, size // WORD, self._fill(buffer, arrays, starts, size), self._stamp())
        self._copy(buffer, size)
        self._sum(_BEFORE, sent)
        places = zip(arrays, starts, strict=True)
        return [_as_array(buffer.device, array, start) for array, start in places], sent

    def judged(self, sent: Sent) -> None:
        """All that needs what was sent is launched."""
        self._sum(_AFTER, sent)
        sent.buffer.judged.record()

    def check(self) -> None:
        """Wait for the device, and for proof that it has judged what was sent.

        Raises:
            DeviceError: it had something else.
        """
        problem = self.problem()
        if problem:
            raise DeviceError(problem)

    def problem(self) -> str:
        """What is wrong with what was judged, once the device is done; empty if nothing is."""
        if self._sums is None or self._sums.agree():
            return ""
        return "what it judged isn't what was sent to it"

    def close(self) -> None:
        """Give all memory back, once nothing is on its way."""
        self._sums = None
        with suppress(Exception):  # of a device that failed; that was told
            if self._stream is not None:
                self._stream.synchronize()
                cuda.synchronize()
        with suppress(Exception):
            self._let_go()

    def _stamp(self) -> int:
        self._serial += 1
        return stamp_of(self._serial)

    def _sum(self, row: int, sent: Sent) -> None:
        if self._sums is None:
            self._sums = Checksums(2)
        words = sent.buffer.device[: sent.words * WORD].view(np.uint64)
        self._sums.add(row, words, sent.stamp, sent.total)

    @staticmethod
    def _fill(
        buffer: Buffer, arrays: Sequence[npt.NDArray[Any]], starts: Sequence[int], size: int
    ) -> int:
        """Write arrays one after the other; the sum of all words."""
        total = 0
        for array, start, end in zip(arrays, starts, [*starts[1:], size], strict=True):
            into = buffer.host[start:end]
            source = array.reshape(-1).view(np.uint8)
            source.flags.writeable = False
            total += int(copy_summed(source, into, into.view(np.uint64), start // WORD))
        return total % MODULUS

    def _copy(self, buffer: Buffer, size: int) -> None:
        source, into = buffer.host[:size], buffer.device[:size]
        if not self._is_pinned:
            into.copy_to_device(source)  # on the stream of the kernels, and then it is done
            return
        buffer.judged.wait(self._stream)
        into.copy_to_device(source, stream=self._stream)
        buffer.copied.record(self._stream)
        buffer.copied.wait()

    def _make_room(self, size: int) -> None:
        if self._buffers and self._buffers[0].host.size >= size:
            return
        self._stream = self._stream or copying_stream()
        self._stream.synchronize()
        cuda.synchronize()
        self._let_go()
        room = max(_LEAST, 1 << (size - 1).bit_length())
        hosts = self._hosts(room)
        made = []
        for host in hosts:  # all of them or none
            made.append(Buffer(host, cuda.device_array(room, np.uint8), cuda.event(), cuda.event()))
        self._buffers, self._turn = made, 0
        self._held = len(made) * room, len(made) * room if self._is_pinned else 0
        self._ask(*self._held)

    def _hosts(self, room: int) -> list[Bytes]:
        if self._is_pinned:
            try:
                return [cuda.pinned_array(room, np.uint8) for _ in range(BUFFERS)]
            except Exception as e:  # whatever a driver raises; one that is lost raises again
                self._is_pinned = False
                told = " ".join(str(e).split()) or type(e).__name__
                self._note(
                    f"there was no pinned memory of {BUFFERS} x {room:,} bytes ({told}); outputs "
                    "were copied to the GPU without it, one piece after the other"
                )
        return [np.empty(room, np.uint8)]

    def _let_go(self) -> None:
        self._buffers = []
        self._ask(*(-size for size in self._held))
        self._held = 0, 0
        if not SIMULATED:
            cuda.current_context().deallocations.clear()


class Lanes:
    """Lanes of the threads that compare; each is one thread's at a time.

    Args:
        ask: as of `Lane`.
        note: the same.
    """

    def __init__(self, ask: Callable[[int, int], None], note: Callable[[str], None]) -> None:
        self._ask, self._note = ask, note
        self._free: list[Lane] = []
        self._is_closed = False
        self._lock = threading.Lock()

    @contextmanager
    def lane(self) -> Iterator[Lane]:
        """A lane that is nobody else's; one that was left by an error isn't used again."""
        with self._lock:
            lane = self._free.pop() if self._free else None
        if lane is None:
            lane = Lane(self._ask, self._note)
        cuda.current_context()  # of this thread
        try:
            yield lane
        except BaseException:
            lane.close()
            raise
        with self._lock:
            if not self._is_closed:
                self._free.append(lane)
                return
        lane.close()

    def close(self) -> None:
        """Give the memory of all lanes back; those in use follow."""
        with self._lock:
            self._is_closed = True
            free, self._free = self._free, []
        for lane in free:
            lane.close()


def copying_stream() -> Any:
    """A stream beside the default one, which neither waits for it nor is waited for."""
    if SIMULATED:
        return cuda.stream()
    from numba.cuda.cudadrv import driver as bindings  # the simulator has none

    of_driver: Any = bindings
    context = cuda.current_context()
    flag = of_driver.binding.CUstream_flags.CU_STREAM_NON_BLOCKING
    handle = of_driver.driver.cuStreamCreate(int(flag))
    stream = cuda.external_stream(int(handle))
    # As Numba gives its own streams back: when it next gives memory back, and not at exit.
    finish = context.deallocations.add_item
    weakref.finalize(stream, finish, of_driver.driver.cuStreamDestroy, handle).atexit = False
    return stream


def _as_array(device: Any, array: npt.NDArray[Any], start: int) -> Any:
    """Bytes of the device as an array of the host is."""
    flat = device[start : start + array.nbytes].view(array.dtype)
    return flat.reshape(array.shape)
