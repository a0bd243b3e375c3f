"""Every Numba option in one place.

`jit` compiles a loop, `scalar` a rule for one element that is inlined into loops. Neither has
`fastmath`: the flag would let a decision compile to a fused multiply-add. Neither counts references
to arrays: kernels make none, and counting costs more than judging where a sample is one element.

What a function needs to be called from Python takes a tenth of the time to compile, and most are
only called by other kernels. So these call a version without it, and Python another one, each made
when it is first called. Without it a call from Python would end the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial, update_wrapper
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.core.errors import NumbaNotImplementedError
from numba.extending import typeof_impl
from numba.np.numpy_support import from_dtype, map_layout

from paritygate.kernels import compiling
from paritygate.kernels._cache import KernelCache, config

F = TypeVar("F", bound=Callable[..., Any])

_ALWAYS: dict[str, Any] = {
    "error_model": "numpy",
    "boundscheck": False,
    "_nrt": False,
    "no_cfunc_wrapper": True,
}

# What `scalar` compiles with, for `overload`.
INLINED: Any = {**_ALWAYS, "forceinline": True, "no_cpython_wrapper": True}

compiling.listen()


def _type_array(array: npt.NDArray[Any], context: Any) -> Any:
    """Numba's type of an array, as Numba gives it.

    Numba asks of each whether it is a masked one, and to ask imports `numpy.ma`: 30 ms of a start.
    """
    if type(array) is not np.ndarray:
        return _type_any_array(array, context)
    try:
        dtype = from_dtype(array.dtype)
    except NumbaNotImplementedError:
        return _type_any_array(array, context)
    is_readonly = not array.flags.writeable
    return types.Array(dtype, array.ndim, map_layout(array), readonly=is_readonly)


_type_any_array = typeof_impl.dispatch(np.ndarray)
typeof_impl.register(np.ndarray, _type_array)


def jit(function: F) -> F:
    """Compile a loop: serial, without the GIL, cached on disk, division by zero as in IEEE 754."""
    return _compile(function, is_cached=KernelCache.covers(function), nogil=True)


def brief(function: F) -> F:
    """Compile what ends before another thread would have got the GIL, and so keeps it."""
    return _compile(function, is_cached=KernelCache.covers(function), nogil=False)


def scalar(function: F) -> F:
    """Compile a rule for one element; it is always inlined into the loop that calls it."""
    return _compile(function, is_cached=False, forceinline=True)


class Inner:
    """A function as other kernels call it; its methods are what Numba asks for when one does."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._made: Any = None
        self._making = threading.Lock()

    @property
    def dispatcher(self) -> Any:
        """Numba's object, which nothing may call; threads get the same one."""
        with self._making:
            if self._made is None:
                self._made = self._make()
            return self._made

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """How it is called with arguments of these types; it is compiled for them."""
        return self.dispatcher.get_call_template(args, kws)

    def get_overload(self, sig: Any) -> Any:
        """The function compiled for these types."""
        return self.dispatcher.get_overload(sig)


class Kernel:
    """A function that Numba compiles once it is called; all else of it is asked of Numba's object.

    Most are only called by others, or not at all in a process that finds these in the cache: to
    have Numba's objects of all of them took a fiftieth of what a command takes to start.

    Attributes:
        py_func: the function itself.
        inner: the function as other kernels call it.
    """

    def __init__(self, function: Callable[..., Any], is_cached: bool, **options: Any) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._make = partial(_dispatcher, function, is_cached, **options)
        inner = {**options, "no_cpython_wrapper": True}
        self.inner = Inner(partial(_dispatcher, function, is_cached, **inner))
        self._making = threading.Lock()

    @cached_property
    def dispatcher(self) -> Any:
        """Numba's object, for calls from Python; threads get the same one."""
        with self._making:
            if "dispatcher" not in self.__dict__:
                made = self._make()
                made.get_call_template = self.inner.get_call_template
                made.get_overload = self.inner.get_overload
                self.__dict__["dispatcher"] = made
            return self.__dict__["dispatcher"]

    @property
    def _numba_type_(self) -> Any:
        """What Numba knows it as, where another kernel calls it."""
        return self.dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        """Call it; it is compiled for these types, or read from the cache."""
        return self.dispatcher(*arguments)

    def __getattr__(self, name: str) -> Any:
        """Whatever else there is to know of it."""
        return getattr(self.dispatcher, name)


def _compile(function: F, *, is_cached: bool, **options: Any) -> F:
    if config.DISABLE_JIT:
        return function
    return cast(F, Kernel(function, is_cached, **options))


def _dispatcher(function: Callable[..., Any], is_cached: bool, **options: Any) -> Any:
    made: Any = numba.njit
    made = made(**_ALWAYS, **options)(function)
    if is_cached:
        made._cache = KernelCache(function, is_inner="no_cpython_wrapper" in options)
    return made
