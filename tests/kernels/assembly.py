"""Machine code as text, of kernels that were compiled now or came from the cache.

Numba's own `inspect_asm` shows none of what comes from a cache. But the optimised module that the
machine code was made of is kept beside it, and the same target makes the same code of it again.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

from llvmlite import binding
from numba.core.registry import cpu_target

from paritygate.kernels._cache import cache_folder, read_kept


def _one_of(is_meant: Callable[[int], bool]) -> bytes:
    return b"[" + b"".join(re.escape(bytes([k])) for k in range(256) if is_meant(k)) + b"]"


# How instructions of x86 that multiply and add begin, with a prefix of either kind.
# Other bytes can look the same, but where none do there is no such instruction.
_CODE = _one_of(lambda k: k >> 4 in (9, 10, 11) and k & 15 >= 6)
_VEX = b"\xc4" + _one_of(lambda k: k & 31 == 2) + _one_of(lambda k: k & 3 == 1) + _CODE
_EVEX = b"b" + _one_of(lambda k: k & 15 in (2, 6)) + _one_of(lambda k: k & 7 == 5) + b"." + _CODE
_FUSED = re.compile(_VEX + b"|" + _EVEX, re.DOTALL)


def assembly_of(compiled: Any) -> str:
    """The assembly of one overload of a kernel."""
    return _assembly(_module_of(compiled))


def is_suspect(compiled: Any) -> bool:
    """Whether the machine code of an overload may have a fused multiply-add."""
    return bool(_FUSED.search(_machine().emit_object(_module_of(compiled))))


def kept_assemblies(always: frozenset[str]) -> Iterator[tuple[str, str]]:
    """Name and assembly of every kernel in the cache, of every signature, inner versions too.

    Args:
        always: names of kernels of which the text is made once in any case, of the shortest code;
            else it is empty where the machine code can't have a fused multiply-add.
    """
    wanted = set(always)
    for path in sorted(cache_folder().glob("[!.]*"), key=lambda path: path.stat().st_size):
        content = read_kept(cache_folder, path.name)
        assert content is not None, path
        key, _, (library, *_) = pickle.loads(content)
        _, kind, (machine_code, bitcode) = library
        assert kind == "object"
        name = eval(key)[0].removesuffix(".inner")
        assert path.name.startswith(name)
        if name in wanted or _FUSED.search(machine_code):
            wanted.discard(name)
            yield name, _assembly(binding.parse_bitcode(bitcode))
        else:
            yield name, ""


def _module_of(compiled: Any) -> Any:
    return compiled.library._get_module_for_linking()


def _machine() -> Any:
    return cpu_target.target_context.codegen()._tm


def _assembly(module: Any) -> str:
    return str(_machine().emit_assembly(module))
