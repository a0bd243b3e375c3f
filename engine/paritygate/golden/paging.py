"""Let go of pages of mapped files.

Called through ctypes, which lets other threads run meanwhile; Python's own `madvise` doesn't.
"""

from __future__ import annotations

import ctypes
import mmap

_PAGE = mmap.PAGESIZE
_DONTNEED = 4


def let_go(address: int, size: int) -> None:
    """Unmap the pages of some bytes of a file that is mapped for reading; they can be read again.

    Args:
        address: of the first byte.
        size: how many there are.
    """
    low = address - address % _PAGE
    if size > 0:
        _madvise(low, address + size - low, _DONTNEED)


_madvise = ctypes.CDLL(None).madvise
_madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
