"""Calls between kernels that are compiled apart: each once, and only when it is called at all.

Numba copies what a kernel calls into it and compiles it again, for every caller. A linked call goes
through a cell that holds the address of the machine code; while the cell is empty, Python is asked
to fill it. That costs some 30 ns a call: it is for pieces of an array, not for single elements.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, TypeVar, cast

import llvmlite.binding as llvm
from llvmlite import ir
from numba.core import cgutils, types
from numba.core import config as numba_config
from numba.extending import intrinsic

from paritygate.kernels import second
from paritygate.kernels.second import Need

F = TypeVar("F", bound=Callable[..., Any])

_PREFIX = "paritygate.linked."
_FILL = "paritygate.fill"
_NAME = re.compile(re.escape(_PREFIX) + r"[0-9a-f]{32}")
_RESULTS: dict[str, Any] = {
    "None": types.none,
    "bool": types.boolean,
    "int": types.int64,
    "tuple[float, int, int, int]": types.Tuple((types.float64, *[types.int64] * 3)),
}
_config: Any = numba_config  # its attributes are made at run time
_make_intrinsic: Any = intrinsic


class LinkError(Exception):
    """A kernel that another one calls could not be compiled; `__cause__` says why."""


class _Links:
    """The cells of this process."""

    def __init__(self) -> None:
        self._cells: dict[str, ctypes.c_int64] = {}
        self._needs: dict[int, Need] = {}
        self._kept: list[Any] = []  # machine code that cells point to
        self._failed = threading.local()
        self._callback = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self._fill)
        address = ctypes.cast(self._callback, ctypes.c_void_p).value
        llvm.add_symbol(_FILL, address)

    def add(self, need: Need) -> str:
        """The symbol of a cell for a kernel; it is made where there is none."""
        symbol = _PREFIX + hashlib.sha256(repr(need).encode()).hexdigest()[:32]
        if symbol not in self._cells:
            cell = self._cells.setdefault(symbol, ctypes.c_int64(0))
            address = ctypes.addressof(cell)
            self._needs[address] = need
            llvm.add_symbol(symbol, address)
            second.note(need)
        return symbol

    def needs_of(self, code: str) -> list[Need]:
        found = sorted(set(_NAME.findall(code)))
        return [self._needs[ctypes.addressof(self._cells[symbol])] for symbol in found]

    def _fill(self, address: int) -> None:
        """Fill a cell, others before it where two processes share the work.

        Nothing may be raised here: nobody would see it.
        """
        try:
            need = self._needs[address]
            empty = {self._needs[other]: other for other in list(self._needs) if not _value(other)}
            for other in second.before(need, empty):
                with suppress(Exception):  # raised where that one is called
                    self._make(other, empty[other])
            self._make(need, address)
        except BaseException as error:  # an interrupt, too
            self._failed.error = error

    def _make(self, need: Need, address: int) -> None:
        """Compile, or load, what a cell is for."""
        module, name, own = need
        kernel = getattr(importlib.import_module(module), name)
        inner = kernel.inner.dispatcher
        inner.compile(own)
        compiled = inner.overloads[own]
        result = compiled.signature.return_type
        if result != _result_of(kernel):
            raise TypeError(f"{module}.{name} returns {result}, which isn't what it declares")
        self._kept.append(compiled.library)
        found = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
        ctypes.c_int64.from_address(address).value = found

    def failure(self) -> BaseException | None:
        """What went wrong on this thread since this was asked last."""
        return cast("BaseException | None", self._failed.__dict__.pop("error", None))


def _value(address: int) -> int:
    return ctypes.c_int64.from_address(address).value


_links = _Links()


def linked(kernel: F) -> F:
    """What calls a kernel from another one without a copy of it; from Python, call it itself."""
    if _config.DISABLE_JIT:
        return kernel
    result = _result_of(kernel)

    @_make_intrinsic
    def call(typing_context: Any, *arguments: Any) -> Any:
        del typing_context
        packed: Any = arguments[0]  # Numba types them as one tuple, or one by one
        given: Any = packed if isinstance(packed, types.BaseTuple) else arguments
        own = tuple(types.unliteral(argument) for argument in given)
        function = cast(Any, kernel).py_func
        symbol = _links.add((function.__module__, function.__qualname__, own))

        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            del signature
            own_values = [builder.extract_value(values[0], at) for at in range(len(own))]
            return _emit(context, builder, symbol, result, own, own_values)

        return result(types.StarArgTuple.from_types(own)), generate

    return cast(F, call)


def _emit(
    context: Any, builder: Any, symbol: str, result: Any, own: tuple[Any, ...], values: list[Any]
) -> Any:
    """A call through the cell, after it was filled."""
    word, convention = ir.IntType(64), context.call_conv
    cell = builder.module.globals.get(symbol) or ir.GlobalVariable(builder.module, word, symbol)
    empty = ir.Constant(word, 0)
    is_empty = builder.icmp_unsigned("==", _load(builder, cell), empty)
    with builder.if_then(is_empty, likely=False):
        kind = ir.FunctionType(ir.VoidType(), [word])
        fill = cgutils.get_or_insert_function(builder.module, kind, _FILL)
        builder.call(fill, [builder.ptrtoint(cell, word)])
        is_still = builder.icmp_unsigned("==", _load(builder, cell), empty)
        with builder.if_then(is_still, likely=False):
            convention.return_user_exc(builder, LinkError, ())
    kind = convention.get_function_type(result, own)
    callee = builder.inttoptr(_load(builder, cell), kind.as_pointer())
    status, found = convention.call_function(builder, callee, result, own, values)
    with cgutils.if_unlikely(builder, status.is_error):
        convention.return_status_propagate(builder, status)
    return found


def _load(builder: Any, cell: Any) -> Any:
    return builder.load_atomic(cell, ordering="acquire", align=8)


def _result_of(kernel: Any) -> Any:
    """The type that a kernel returns, as its annotation says."""
    function = getattr(kernel, "py_func", kernel)
    return _RESULTS[function.__annotations__["return"]]


def call(kernel: F) -> F:
    """A kernel that calls others, to be called from Python: what stops these is raised.

    Raises:
        LinkError: a kernel that it calls could not be compiled.
        KeyboardInterrupt: a signal came just before one was.
        MemoryError: there is too little for that.
    """

    def called(*arguments: Any) -> Any:
        try:
            return kernel(*arguments)
        except LinkError:
            # What a signal's handler raises before anything can be noted is lost on the way.
            cause = _links.failure() or KeyboardInterrupt("a signal came while kernels ran")
            if isinstance(cause, MemoryError) or not isinstance(cause, Exception):
                raise cause from None
            raise LinkError(f"a kernel could not be compiled: {cause}") from cause

    return cast(F, called)


def needs_of(library: Any) -> list[Need]:
    """What compiled code is linked to."""
    return _links.needs_of(library.get_llvm_str())


def make_cells(needs: Iterable[Need]) -> None:
    """Before code is loaded that is linked to these."""
    for need in needs:
        _links.add(need)
