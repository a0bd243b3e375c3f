"""A program of torch, whatever it comes from: what it takes, how it is called, what is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct, field

from paritygate.core.tensors import Dim

Takes = Literal["tensor", "int", "float", "bool", "str", "any"]
_COARSEST_FIRST = ("float8", "bfloat16", "float16")


class ProgramError(Exception):
    """Why a program can't be loaded or judged.

    Attributes:
        is_plan_fault: whether the plan is at fault, and not the program.
        code: of the reason, where it has one of its own.
    """

    def __init__(self, message: str, *, is_plan_fault: bool = False, code: str = "") -> None:
        super().__init__(message)
        self.is_plan_fault = is_plan_fault
        self.code = code


class Parameter(Struct, frozen=True):
    """One of what a program takes.

    Attributes:
        name: its own.
        takes: a tensor, a number or text of Python, or either.
        is_optional: whether it may be left out.
        by_keyword: whether it is passed by its name.
        dtype: dtype name of a tensor; None: any.
        shape: dims of a tensor; None: any.
        fixed: values that it must have, where the program fixes them: one, or none.
    """

    name: str
    takes: Takes = "any"
    is_optional: bool = False
    by_keyword: bool = True
    dtype: str | None = None
    shape: tuple[Dim, ...] | None = None
    fixed: tuple[object, ...] = ()


class Answer(Struct, frozen=True):
    """An output that a program declares: its own name, dtype and dims."""

    name: str
    dtype: str
    shape: tuple[Dim, ...]


class Program(Struct, frozen=True):
    """What is called for each batch.

    Attributes:
        call: with tensors; answers tensors.
        form: what it is, in words.
        parameters: what it takes, in order.
        answers: what it declares to answer; None: unknown.
        is_thread_safe: several threads may call it at once.
        largest: rows that a batch may have at most, and least, where the program says so.
        reset: called before each batch.
        facts: of JSON types.
    """

    call: Any
    form: str
    parameters: tuple[Parameter, ...]
    answers: tuple[Answer, ...] | None = None
    is_thread_safe: bool = False
    bounds: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    reset: Any = None
    facts: Mapping[str, object] = field(default_factory=dict)


def describe_precision(tensors: Sequence[Any], quantized: Sequence[str]) -> dict[str, object]:
    """The coarsest arithmetic that the parameters and buffers of a program point to.

    Args:
        tensors: parameters and buffers.
        quantized: names of its quantised operators.
    """
    names = {str(t.dtype).removeprefix("torch.") for t in tensors}
    is_quantized = bool(quantized) or any(name.startswith(("qint", "quint")) for name in names)
    coarse = next((c for c in _COARSEST_FIRST if any(n.startswith(c) for n in names)), None)
    wide = "float64" if "float64" in names and "float32" not in names else "float32"
    arithmetic = "int8" if is_quantized else coarse or wide
    return {
        "arithmetic": arithmetic,
        "dynamic_quantization": any("dynamic" in name for name in quantized),
    }
