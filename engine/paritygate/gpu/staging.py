"""Arrays of the host on their way to a device: copied while those before them are judged.

Kernels run on the default stream. Copies run on a stream of their own, which doesn't wait for that
one, from chunks of pinned memory that are small enough to stay in the processor's cache; events
keep both apart. A chunk is filled again once it has been copied, and a buffer of the device once
what it held has been judged. What the device has before and after it judges is summed up there, and
held against what the host read.
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

BUFFERS, CHUNKS = 2, 3
CHUNK_BYTES = 2 << 20
_ALIGNED = 256  # bytes: where an array begins on the device
_LEAST = 1 << 16
_BEFORE, _AFTER = 0, 1

Bytes = npt.NDArray[np.uint8]


class Chunk(NamedTuple):
    """Bytes of the host, and when the device has them."""

    host: Bytes
    copied: Any


class Buffer(NamedTuple):
    """Bytes of the device, and when it needs what is in them no more."""

    device: Any
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
        self._chunks: list[Chunk] = []
        self._held = 0, 0
        self._is_pinned = True
        self._stream: Any = None
        self._sums: Checksums | None = None
        self._turn = self._next = self._serial = 0

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
        if self._is_pinned:
            buffer.judged.wait(self._stream)
        total = 0
        for array, start, end in zip(arrays, starts, [*starts[1:], size], strict=True):
            total += self._carry(array, buffer.device[start:end], start)
        if self._is_pinned:
            self._chunks[self._next - 1].copied.wait()  # the last one, behind all others
        sent = Sent(buffer, size // WORD, total % MODULUS, self._stamp())
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

    @property
    def bytes_held(self) -> int:
        """Memory of the device that this takes."""
        return self._held[0]

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

    def _carry(self, array: npt.NDArray[Any], device: Any, start: int) -> int:
        """Copy an array, chunk by chunk, to where it lies in a buffer; the sum of its words."""
        source = array.reshape(-1).view(np.uint8)
        source.flags.writeable = False
        total, room = 0, self._chunks[0].host.size
        for at in range(0, device.size, room):
            chunk = self._chunks[self._next]
            self._next = (self._next + 1) % len(self._chunks)
            part, into = device[at : at + room], chunk.host[: device.size - at]
            chunk.copied.synchronize()
            words = into.view(np.uint64)
            total += int(copy_summed(source[at : at + room], into, words, (start + at) // WORD))
            self._copy(chunk, into, part)
        return total

    def _copy(self, chunk: Chunk, source: Bytes, into: Any) -> None:
        if not self._is_pinned:
            into.copy_to_device(source)  # on the stream of the kernels, and then it is read
            return
        into.copy_to_device(source, stream=self._stream)
        chunk.copied.record(self._stream)

    def _make_room(self, size: int) -> None:
        if self._buffers and self._buffers[0].device.size >= size:
            return
        self._stream = self._stream or copying_stream()
        self._stream.synchronize()
        cuda.synchronize()
        self._let_go()
        room = max(_LEAST, 1 << (size - 1).bit_length())
        chunks = self._make_chunks(min(room, CHUNK_BYTES))
        buffers = []
        for _ in range(BUFFERS):  # all of them or none
            buffers.append(Buffer(cuda.device_array(room, np.uint8), cuda.event()))
        self._chunks, self._buffers = chunks, buffers
        self._turn = self._next = 0
        pinned = sum(chunk.host.size for chunk in chunks) if self._is_pinned else 0
        self._held = BUFFERS * room, pinned
        self._ask(*self._held)

    def _make_chunks(self, room: int) -> list[Chunk]:
        if self._is_pinned:
            try:
                hosts = [cuda.pinned_array(room, np.uint8) for _ in range(CHUNKS)]
                return [Chunk(host, cuda.event()) for host in hosts]
            except Exception as e:  # whatever a driver raises; one that is lost raises again
                self._is_pinned = False
                told = " ".join(str(e).split()) or type(e).__name__
                self._note(
                    f"there was no pinned memory of {CHUNKS} x {room:,} bytes ({told}); outputs "
                    "were copied to the GPU without it, one piece after the other"
                )
        return [Chunk(np.empty(room, np.uint8), cuda.event())]

    def _let_go(self) -> None:
        self._buffers, self._chunks = [], []
        self._ask(*(-size for size in self._held))
        self._held = 0, 0
        give_back_freed()


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
        try:
            cuda.current_context()  # of this thread
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
        self.drop()

    def drop(self) -> int:
        """Give the memory of lanes back that nobody uses; how many bytes of the device."""
        with self._lock:
            free, self._free = self._free, []
        held = sum(lane.bytes_held for lane in free)
        for lane in free:
            lane.close()
        return held


def give_back_freed() -> None:
    """What was freed here goes back to the device now, not with what else is freed later."""
    if not SIMULATED:
        with suppress(Exception):  # of a device that failed; that was told
            cuda.current_context().deallocations.clear()


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
