"""Tensors in memory that two processes share: written once, read in place.

The memory has no name, so that nothing is left behind whatever ends either process.
"""

from __future__ import annotations

import errno
import fcntl
import math
import mmap
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any, cast

import numpy as np
from msgspec import Struct

from paritygate.core.dtypes import STRING, dtype_name, numpy_dtype
from paritygate.core.ragged import Ragged, Tensor
from paritygate.core.tensors import Array

_ALIGN = 64
_PAGE = 4096
_WANTS = (errno.ENOMEM, errno.EAGAIN, errno.ENOSPC, errno.EFBIG)
# What is told of a tensor: ("array", name, dtype, shape, offset), ("texts", name, shape, texts),
# ("ragged", name, dtype, shapes, offsets), or ("ragged texts", name, shapes, texts).
Told = tuple[Any, ...]


class _Written(Struct, frozen=True):
    start: int
    kinds: tuple[tuple[str, np.dtype[Any], tuple[int, ...]], ...]
    targets: list[Array]
    told: list[Told]
    stop: int


class SharedMemory:
    """A piece of memory without a name, which either process may make larger.

    Attributes:
        fd: its descriptor, which is handed to the other process.
        capacity: bytes that are mapped; the other process may have made it larger.
        last: what this process wrote last, so that what is alike goes to the same places.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.capacity = 0
        self.last: _Written | None = None
        self._map: mmap.mmap | None = None

    @staticmethod
    def create(capacity: int) -> SharedMemory:
        """New memory of at least so many bytes.

        Raises:
            MemoryError: there is too little.
        """
        made = SharedMemory(os.memfd_create("paritygate", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING))
        fcntl.fcntl(made.fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)  # what is mapped stays there
        made.reserve(capacity)
        return made

    def __del__(self) -> None:
        with suppress(OSError):
            os.close(self.fd)

    def reserve(self, capacity: int) -> None:
        """Make it large enough; arrays that lie in it stay where they are.

        Raises:
            MemoryError: there is too little; what was mapped is so still, if that finds room.
        """
        if capacity > self.capacity:
            size = max(_PAGE, -(-capacity // _PAGE) * _PAGE)
            with _wanting(size):
                # The other process may have made it larger: what it has mapped must stay there.
                if os.fstat(self.fd).st_size < size:
                    os.ftruncate(self.fd, size)
            self.see(size)

    def see(self, capacity: int) -> None:
        """Map as much as there is by now.

        Raises:
            MemoryError: as `reserve`.
        """
        if capacity > self.capacity:
            before = self.capacity
            self.last, self._map, self.capacity = None, None, 0  # not twice in the address space
            try:
                self._see(capacity)
            except MemoryError:
                with suppress(MemoryError):
                    self._see(before)
                raise

    def _see(self, capacity: int) -> None:
        if capacity:
            with _wanting(capacity):
                self._map = mmap.mmap(self.fd, capacity)
            self.capacity = capacity

    def array(self, dtype: str, shape: tuple[int, ...], offset: int) -> Array:
        """An array that lies in it."""
        if not math.prod(shape):
            return np.empty(shape, numpy_dtype(dtype))
        made: Array = np.ndarray(shape, numpy_dtype(dtype), self._map, offset)
        return made


@contextmanager
def _wanting(size: int) -> Iterator[None]:
    """Tell a want of memory from other errors of the system."""
    try:
        yield
    except OSError as e:
        if e.errno not in _WANTS:
            raise
        told = f"{size:,} bytes can't be shared with the other process ({e.strerror})"
        raise MemoryError(told) from None


def room_for(tensors: Iterable[Tensor]) -> int:
    """Bytes in which tensors find room, wherever they begin."""
    room = _ALIGN
    for tensor in tensors:
        if isinstance(tensor, Ragged):
            room += sum(a.nbytes + _ALIGN for a in tensor.arrays if a.dtype != object)
        elif tensor.dtype != object:
            room += tensor.nbytes + _ALIGN
    return room


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGN) * _ALIGN


def write_tensors(
    memory: SharedMemory, tensors: Mapping[str, Tensor], start: int
) -> tuple[list[Told], int]:
    """Copy tensors into shared memory from an offset on, which grows as it must.

    Returns:
        What to tell the other process, and where free memory begins.

    Raises:
        MemoryError: it can't grow so far.
    """
    if any(isinstance(t, Ragged) or t.dtype == object for t in tensors.values()):
        return _write_any(memory, tensors, start)
    arrays = cast(Mapping[str, Array], tensors)
    kinds = tuple((name, array.dtype, array.shape) for name, array in arrays.items())
    last = memory.last
    if last is None or (last.start, last.kinds) != (start, kinds):
        last = memory.last = _lay_out(memory, arrays, start, kinds)
    for target, array in zip(last.targets, arrays.values(), strict=True):
        np.copyto(target, array)
    return last.told, last.stop


def _lay_out(memory: SharedMemory, arrays: Mapping[str, Array], start: int, kinds: Any) -> _Written:
    told: list[Told] = []
    offset = start
    for name, array in arrays.items():
        offset = _aligned(offset)
        told.append(("array", name, dtype_name(array.dtype), array.shape, offset))
        offset += array.nbytes
    memory.reserve(offset)
    targets = [memory.array(*place) for _, _, *place in told]
    return _Written(start, kinds, targets, told, _aligned(offset))


def _write_any(
    memory: SharedMemory, tensors: Mapping[str, Tensor], start: int
) -> tuple[list[Told], int]:
    told: list[Told] = []
    copies: list[tuple[int, Array]] = []
    offset = start
    for name, tensor in tensors.items():
        if dtype_name(tensor.dtype) == STRING:
            told.append(_tell_texts(name, tensor))
            continue
        arrays = tensor.arrays if isinstance(tensor, Ragged) else [tensor]
        offsets = []
        for array in arrays:
            offset = _aligned(offset)
            offsets.append(offset)
            copies.append((offset, array))
            offset += array.nbytes
        dtype = dtype_name(tensor.dtype)
        if isinstance(tensor, Ragged):
            told.append(("ragged", name, dtype, tensor.ndim, [a.shape for a in arrays], offsets))
        else:
            told.append(("array", name, dtype, tensor.shape, offsets[0]))
    memory.reserve(offset)
    for at, array in copies:
        if array.size:
            np.copyto(memory.array(dtype_name(array.dtype), array.shape, at), array)
    return told, _aligned(offset)


def _tell_texts(name: str, tensor: Tensor) -> Told:
    if isinstance(tensor, Ragged):
        texts = [array.reshape(-1).tolist() for array in tensor.arrays]
        return "ragged texts", name, tensor.ndim, [a.shape for a in tensor.arrays], texts
    return "texts", name, tensor.shape, tensor.reshape(-1).tolist()


def read_tensors(memory: SharedMemory, told: Iterable[Told]) -> dict[str, Tensor]:
    """Read-only views of what the other process wrote."""
    tensors: dict[str, Tensor] = {}
    for kind, name, *rest in told:
        if kind == "array":
            dtype, shape, offset = rest
            tensors[name] = _read_only(memory.array(dtype, shape, offset))
        elif kind == "texts":
            shape, texts = rest
            tensors[name] = _read_only(_texts(texts, shape))
        elif kind == "ragged":
            dtype, ndim, shapes, offsets = rest
            pairs = zip(shapes, offsets, strict=True)
            rows = [_read_only(memory.array(dtype, shape, at)) for shape, at in pairs]
            tensors[name] = Ragged(rows, numpy_dtype(dtype), ndim - 1)
        else:
            ndim, shapes, texts = rest
            rows = [_texts(*pair) for pair in zip(texts, shapes, strict=True)]
            tensors[name] = Ragged(rows, np.dtype(object), ndim - 1)
    return tensors


def _texts(texts: Sequence[str], shape: tuple[int, ...]) -> Array:
    made = np.empty(len(texts), object)
    made[:] = texts
    return made.reshape(shape)


def _read_only(array: Array) -> Array:
    array.flags.writeable = False
    return array


def pack_array(array: Array) -> Told:
    """An array as bytes, which any version of NumPy reads."""
    if array.dtype == object:
        return "texts", array.shape, array.reshape(-1).tolist()
    return dtype_name(array.dtype), array.shape, np.ascontiguousarray(array).tobytes()


def unpack_array(told: Told) -> Array:
    """The array that `pack_array` packed; read-only."""
    dtype, shape, data = told
    if dtype == "texts":
        return _read_only(_texts(data, shape))
    return _read_only(np.frombuffer(data, numpy_dtype(dtype)).reshape(shape))
