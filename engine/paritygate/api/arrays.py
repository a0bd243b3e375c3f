"""`assert_parity`: two arrays, the rules of a plan, and a message that says what differs."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from paritygate.api.array_decisions import ONLY, describe_flips, read_decisions
from paritygate.core.dtypes import DTYPES, dtype_name, is_float, is_string, widened
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array
from paritygate.core.verdict import rule_names
from paritygate.tally.extremes import Extreme, Number
from paritygate.tally.output import OutputTally

SHOWN = 5


def assert_parity(
    ref: Any,
    cand: Any,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    nonfinite: Literal["fail", "match"] = "fail",
    decisions: Mapping[str, Mapping[str, Any]] | None = None,
) -> None:
    """Assert that two arrays agree: `|cand - ref| <= atol + rtol * |ref|` in float64.

    The tolerance is for floats; integers and bools are compared exactly. Nothing is broadcast,
    flattened or cast: shapes and dtypes must be equal. NaN and infinities are judged before the
    tolerance.

    Args:
        ref: array or nested list of any shape; or a mapping of names to such.
        cand: the same for the candidate; a mapping must have the same names.
        atol: absolute tolerance, finite, >= 0. Without atol and rtol: exact.
        rtol: relative to the reference, 0 <= rtol < 1; given together with `atol`.
        nonfinite: "fail", or "match": the same class and sign in the same place is equal.
        decisions: name -> table as in a plan, of which no sample may change; the first axis is the
            samples. `output` names an array of a mapping; two plain arrays need none.

    Raises:
        AssertionError: they differ; with the share, the worst elements, both values, the bound.
        ValueError: a tolerance or a decision that isn't usable.
        TypeError: a dtype that can't be judged.
    """
    tolerance = _tolerance(atol, rtol, nonfinite)
    rules = read_decisions(decisions or {})
    if isinstance(ref, Mapping) or isinstance(cand, Mapping):
        _assert_mappings(ref, cand, tolerance, rules)
        return
    strange = [rule.output for rule in rules if rule.output != ONLY]
    if strange:
        raise ValueError(f"decisions name the output {strange[0]!r}, but there is one array only")
    message = _mismatch(_array(ref, "ref"), _array(cand, "cand"), tolerance, rules)
    if message:
        raise AssertionError(message)


def _tolerance(
    atol: float | None, rtol: float | None, nonfinite: Literal["fail", "match"]
) -> Tolerance:
    if (atol is None) != (rtol is None):
        raise ValueError("atol and rtol belong together; give both (0 is a value) or neither")
    atol, rtol = float(atol or 0.0), float(rtol or 0.0)
    if not (math.isfinite(atol) and atol >= 0):
        raise ValueError(f"atol is {atol}; it must be finite and >= 0")
    if not 0 <= rtol < 1:
        raise ValueError(f"rtol is {rtol}; it must be in [0, 1)")
    if nonfinite not in ("fail", "match"):
        raise ValueError(f"nonfinite is {nonfinite!r}; it is 'fail' or 'match'")
    return Tolerance(atol=atol, rtol=rtol, nonfinite=nonfinite)


def _assert_mappings(
    ref: Any, cand: Any, tolerance: Tolerance, rules: Sequence[DecisionRule]
) -> None:
    if not (isinstance(ref, Mapping) and isinstance(cand, Mapping)):
        raise AssertionError(
            f"ref is a {type(ref).__name__} and cand a {type(cand).__name__}; give two mappings or "
            "two arrays"
        )
    missing, extra = sorted(set(ref) - set(cand)), sorted(set(cand) - set(ref))
    if missing or extra:
        raise AssertionError(f"names differ: cand lacks {missing} and has unexpected {extra}")
    if not ref:
        raise AssertionError("both mappings are empty, so nothing was compared")
    strange = [rule.output for rule in rules if rule.output not in ref]
    if strange:
        raise ValueError(f"decisions name the output {strange[0]!r}, but there is {sorted(ref)}")
    messages = []
    for name in ref:
        own = [rule for rule in rules if rule.output == name]
        message = _mismatch(_array(ref[name], name), _array(cand[name], name), tolerance, own)
        if message:
            messages.append(f"{name!r}: {message}")
    if messages:
        raise AssertionError("\n".join(messages))


def _array(value: Any, name: str) -> Array:
    if "torch" in sys.modules and (taken := _of_tensor(value, name)) is not None:
        return taken
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is a masked array, whose mask would be lost; fill it first")
    if hasattr(value, "columns") or _is_labelled(value):
        raise TypeError(
            f"{name} is a {type(value).__name__}, whose labels would be lost and its values paired "
            "by position; give a dict of arrays, or its to_numpy() if the order is meant"
        )
    array = np.asarray(value)
    if isinstance(value, list | tuple | str):
        array = _from_values(value, array, name)
    if array.dtype.kind in "UT":
        array = array.astype(object)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if dtype_name(array.dtype) not in DTYPES:
        raise TypeError(
            f"{name} is {array.dtype}, which can't be judged; known: {', '.join(DTYPES)}"
        )
    if array.dtype == object and not all(isinstance(v, str) for v in array.reshape(-1).tolist()):
        raise TypeError(f"{name} is an array of objects, not all of which are texts")
    return array


def _of_tensor(value: Any, name: str) -> Array | None:
    """The elements of a tensor of torch, of any dtype; None: it isn't one."""
    from paritygate.runners.torch_arrays import array_or_problem
    from paritygate.runners.torch_load import is_tensor

    if not is_tensor(value):
        return None
    taken = array_or_problem(value, "give ")
    if isinstance(taken, str):
        raise TypeError(f"{name} {taken}")
    return taken


def _is_labelled(value: Any) -> bool:
    """Whether rows have names of their own: a Series with another index than 0, 1, 2, ..."""
    index = getattr(value, "index", None)
    if index is None or callable(index) or not hasattr(value, "iloc"):
        return hasattr(value, "dims") and hasattr(value, "coords")
    return list(index) != list(range(len(value)))


def _from_values(value: Any, array: Array, name: str) -> Array:
    """The array of nested lists, once NumPy has cast nothing to make it."""
    leaves = list(_leaves(value))
    if array.dtype.kind == "f" and any(map(_is_large_int, leaves)):
        raise TypeError(
            f"{name} is a list with integers beyond 2**53, which become floats; give an array"
        )
    kinds = {"texts" if isinstance(v, str) else "bools" for v in leaves if _is_text_or_bool(v)}
    if kinds and not all(map(_is_text_or_bool, leaves)):
        kinds.add("numbers")
    if len(kinds) > 1:
        raise TypeError(f"{name} is a list of {' and '.join(sorted(kinds))}; nothing is cast")
    # A text of NumPy's own loses the NULs at its end.
    return np.array(value, object) if array.dtype.kind == "U" else array


def _is_large_int(value: Any) -> bool:
    return isinstance(value, int | np.integer) and abs(int(value)) > 2**53


def _is_text_or_bool(value: Any) -> bool:
    return isinstance(value, str | bool | np.bool_)


def _leaves(value: Any) -> Iterator[Any]:
    """What nested lists hold in the end; of an array what stands for the rest."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, np.ndarray):
        if value.size:
            yield from (value.min(), value.max()) if value.dtype.kind in "iu" else value.flat[:1]
    else:
        yield value


def _mismatch(
    ref: Array, cand: Array, tolerance: Tolerance, rules: Sequence[DecisionRule] = ()
) -> str | None:
    """What differs, or None."""
    from paritygate.comparison.comparers import make_comparer

    if ref.shape != cand.shape:
        return f"shapes differ: reference {ref.shape}, candidate {cand.shape}; nothing is broadcast"
    if ref.dtype != cand.dtype:
        return f"dtypes differ: reference {ref.dtype}, candidate {cand.dtype}; nothing is cast"
    if ref.size == 0:
        return f"both arrays are empty (shape {ref.shape}), so nothing was compared"
    dtype = dtype_name(ref.dtype)
    if not is_float(dtype):
        tolerance = Tolerance()
    comparer = make_comparer(tolerance, dtype, dtype, ref.shape, "full")
    tally, detail = comparer.compare(ref[None], cand[None], np.zeros(1, np.int64))
    flips = [told for rule in rules if (told := describe_flips(ref, cand, tolerance, rule))]
    if tally.agreeing_nonfinite == tally.elements and not detail.rules[0] and is_float(dtype):
        told = f"all {tally.elements} elements are NaN or infinite, on both sides alike"
        flips = [f"{told}, so nothing was compared", *flips]
    elif detail.rules[0] and is_string(dtype):
        flips = [_describe_texts(ref, tally), *flips]
    elif detail.rules[0]:
        wide = widened(ref), widened(cand)
        flips = [_describe(*wide, tolerance, tally, int(detail.rules[0]), dtype), *flips]
    return "\n".join(flips) or None


def _describe_texts(ref: Array, tally: OutputTally) -> str:
    share = _share(tally.failing_elements, tally.elements)
    text = (
        f"{tally.failing_elements} of {tally.elements} texts differ ({share}); "
        f"string{list(ref.shape)}, tolerance.exceeded"
    )
    first = tally.difference
    if first is None:
        return text
    at = _index(ref, first.index)
    return f"{text}\n  first: {at} ref {first.ref!r} cand {first.cand!r}"


def _describe(
    ref: Array, cand: Array, tolerance: Tolerance, tally: OutputTally, rules: int, dtype: str
) -> str:
    share = _share(tally.failing_elements, tally.elements)
    head = (
        f"{tally.failing_elements} of {tally.elements} elements differ ({share}) beyond "
        f"atol {tolerance.atol:g} + rtol {tolerance.rtol:g} x |ref|; {dtype}{list(ref.shape)}, "
        f"{', '.join(rule_names(rules))}"
    )
    lines = [head]
    if tally.max_excess is not None:
        lines.append("  worst by bound:  " + _element(ref, tally.max_excess, tolerance))
        lines.append("  largest |error|: " + _element(ref, tally.max_abs_error, tolerance))
    if tally.max_ulp is not None and is_float(dtype):
        lines.append(f"  largest distance: {tally.max_ulp.value} ULP of {dtype}")
    lines += _nonfinite(ref, cand, tolerance)
    return "\n".join(lines)


def _share(part: int, whole: int) -> str:
    """A percentage that neither says nothing of one element nor everything of all but one."""
    text = f"{part / whole:.3%}"
    if text == "0.000%":
        return "< 0.001%"
    return "> 99.999%" if text == "100.000%" and part < whole else text


def _element(ref: Array, worst: Extreme | None, tolerance: Tolerance) -> str:
    if worst is None:
        return ""
    allowed = tolerance.atol + tolerance.rtol * abs(float(worst.ref))
    error = abs(worst.cand - worst.ref)
    at = _index(ref, worst.index)
    relative = f", relative {error / abs(worst.ref):.6g}" if worst.ref else ""
    return (
        f"{at} ref {_value(worst.ref)} cand {_value(worst.cand)} |error| {_value(error)}{relative} "
        f"(allowed {allowed:.6g})"
    )


def _value(value: Number) -> str:
    """Integers whole, floats with enough digits to tell float32 neighbours apart."""
    return str(value) if isinstance(value, int) else f"{value:.9g}"


def _nonfinite(ref: Array, cand: Array, tolerance: Tolerance) -> list[str]:
    if not is_float(dtype_name(ref.dtype)):
        return []
    same = (np.isnan(ref) & np.isnan(cand)) | ((ref == cand) & np.isinf(ref))
    bad = ~(np.isfinite(ref) & np.isfinite(cand))
    if tolerance.nonfinite == "match":
        bad &= ~same
    places = np.flatnonzero(bad)
    lines = [f"  not finite: {len(places)} elements"] if len(places) else []
    for at in places[:SHOWN].tolist():
        left, right = ref.reshape(-1)[at], cand.reshape(-1)[at]
        lines.append(f"    {_index(ref, at)} ref {left} cand {right}")
    return lines


def _index(array: Array, flat: int) -> str:
    return str([int(i) for i in np.unravel_index(flat, array.shape)])
