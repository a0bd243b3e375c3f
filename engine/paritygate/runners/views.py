"""What the plan declares of one side's output: other axes, one column, another shape, a transform.

`outputs.NAME = { from = "theirs", transpose = [...], transform = "softmax", select = 1, axis = -1,
reshape = [...] }`. The steps are taken in this order, whatever the order of the keys: transpose,
transform, select, reshape. The samples stay on axis 0 throughout.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import Field, StrictInt, StrictStr, ValidationError, field_validator, model_validator

from paritygate.core.dtypes import dtype_name, is_float, rounded, widened
from paritygate.core.errors import Problem
from paritygate.core.policy import Transform
from paritygate.core.problems import did_you_mean
from paritygate.core.shapes import BATCH
from paritygate.core.tensors import Array, Dim
from paritygate.runners.options import RunnerOptions, describe_errors

Index = Annotated[StrictInt, Field(ge=0)]


class View(RunnerOptions):
    """How an output is seen; axes are counted with the sample axis as 0.

    Attributes:
        from_: the output's own name, where it differs.
        transpose: the order of the axes; starts with 0.
        transform: softmax over `axis`, or sigmoid; in float64, rounded to the output's dtype.
        select: index along `axis`, which goes; or a list of indices, in whose order it stays.
        axis: of softmax and select.
        reshape: the shape, `["batch", ...]`.
    """

    from_: Annotated[StrictStr, Field(min_length=1)] | None = Field(default=None, alias="from")
    transpose: tuple[Index, ...] | None = None
    transform: Transform | None = None
    select: Index | tuple[Index, ...] | None = None
    axis: StrictInt = -1
    reshape: tuple[StrictInt | StrictStr, ...] | None = None

    @field_validator("transpose")
    @classmethod
    def _order_of_axes(cls, value: tuple[int, ...] | None) -> tuple[int, ...] | None:
        if value is not None and (sorted(value) != list(range(len(value))) or value[:1] != (0,)):
            raise ValueError(
                "names each axis once and starts with 0, the samples, as in [0, 2, 3, 1]"
            )
        return value

    @field_validator("select")
    @classmethod
    def _some(cls, value: int | tuple[int, ...] | None) -> int | tuple[int, ...] | None:
        if value == ():
            raise ValueError("is empty; name an index, or a list of them")
        if isinstance(value, tuple) and len(set(value)) != len(value):
            raise ValueError("names an index twice, so that another is left out")
        return value

    @field_validator("reshape")
    @classmethod
    def _samples_first(cls, value: tuple[int | str, ...] | None) -> tuple[int | str, ...] | None:
        if value is not None and value[:1] != (BATCH,):
            raise ValueError('starts with "batch", as in ["batch", 1]')
        if value is not None and any(isinstance(d, str) or d < 0 for d in value[1:]):
            raise ValueError('dims after "batch" are fixed numbers')
        return value

    @model_validator(mode="after")
    def _axis_of_something(self) -> View:
        if self.axis == 0:
            raise ValueError("axis: 0 is the samples")
        if self.axis != -1 and self.select is None and self.transform != "softmax":
            raise ValueError("axis belongs to select and softmax")
        return self

    @property
    def changes(self) -> bool:
        """Whether there is more to it than a name."""
        steps = (self.transpose, self.transform, self.select, self.reshape)
        return any(step is not None for step in steps)

    def to_plan(self) -> dict[str, Any]:
        """The keys that were given, as in a plan."""
        return self.model_dump(mode="json", by_alias=True, exclude_defaults=True)

    def shape(self, dims: Sequence[Dim]) -> tuple[Dim, ...]:
        """Dims of a sample as they are seen.

        Args:
            dims: of a sample as the runner answers it; a name or None where not fixed.

        Raises:
            ValueError: the view doesn't fit; says what to change.
        """
        seen = list(dims)
        if self.transpose is not None:
            if len(self.transpose) != len(seen) + 1:
                raise ValueError(
                    f"transpose names {len(self.transpose)} axes, but a batch has {_told(dims)}"
                )
            seen = [seen[axis - 1] for axis in self.transpose[1:]]
        if self.select is not None or self.transform == "softmax":
            axis = self.axis_of(seen)
            picked = self.select
            if picked is not None:
                _check_index(picked, seen[axis - 1])
                seen[axis - 1 : axis] = [] if isinstance(picked, int) else [len(picked)]
        if self.reshape is None:
            return tuple(seen)
        wanted = [int(d) for d in self.reshape[1:]]
        fixed = [d for d in seen if isinstance(d, int)]
        if len(fixed) == len(seen) and math.prod(wanted) != math.prod(fixed):
            raise ValueError(
                f"reshape to {_told(wanted)} needs as many elements, but there is {_told(seen)}"
            )
        return tuple(wanted)

    def axis_of(self, dims: Sequence[Dim]) -> int:
        """`axis` counted from the front.

        Raises:
            ValueError: there is no such axis.
        """
        axis = self.axis if self.axis > 0 else self.axis + len(dims) + 1
        if not 1 <= axis <= len(dims):
            raise ValueError(f"axis is {self.axis}, but there is {_told(dims)}")
        return axis

    def apply(self, array: Array) -> Array:
        """A batch of an output as it is seen, C-contiguous, in its own dtype.

        Args:
            array: `(batch, ...)`.

        Raises:
            ValueError: the view doesn't fit.
        """
        dims = self.shape(array.shape[1:])
        seen = array if self.transpose is None else array.transpose(self.transpose)
        if self.transform is not None:
            seen = self._transformed(seen)
        if self.select is not None:
            seen = np.take(seen, self.select, axis=self.axis_of(seen.shape[1:]))
        shape = tuple(int(d) for d in dims if isinstance(d, int))
        return np.ascontiguousarray(seen.reshape(len(array), *shape))

    def _transformed(self, array: Array) -> Array:
        from paritygate.kernels.transforms import transform_scores

        assert self.transform is not None
        dtype = dtype_name(array.dtype)
        if not is_float(dtype):
            raise ValueError(f"{self.transform} is of floats, but the output is {array.dtype}")
        axis = self.axis_of(array.shape[1:]) if self.transform == "softmax" else -1
        scores = transform_scores(self.transform, widened(array), axis)
        return rounded(scores, dtype).astype(array.dtype)


def _check_index(picked: int | tuple[int, ...], dim: Dim) -> None:
    for index in (picked,) if isinstance(picked, int) else picked:
        if isinstance(dim, int) and index >= dim:
            raise ValueError(f"select is {index}, but the axis has {dim} (0 to {dim - 1})")


def _told(dims: Sequence[Dim]) -> str:
    return "[" + ", ".join([BATCH, *("?" if d is None else str(d) for d in dims)]) + "]"


_KEYS = tuple(field.alias or name for name, field in View.model_fields.items())
_NAMES_ITSELF = ("python", "null")


def take_views(
    where: str, kind: str, options: dict[str, Any]
) -> tuple[dict[str, View], list[Problem]]:
    """Take the declared views out of a runner's table; `outputs` is left as its kind takes it.

    Args:
        where: path of the runner in the plan.
        kind: of the runner.
        options: the runner's table; its `outputs` is replaced.

    Returns:
        Our output name -> view, and all problems.
    """
    outputs = options.get("outputs")
    if not isinstance(outputs, Mapping):
        return {}, []
    views: dict[str, View] = {}
    problems: list[Problem] = []
    left: dict[str, Any] = {}
    for name, given in outputs.items():
        path = f"{where}.outputs.{name}"
        view, rest, found = _take(path, kind, given)
        problems += found
        if view is not None and view.changes:
            views[name] = view
        left[name] = rest if view is None or view.from_ is None else view.from_
        if kind not in _NAMES_ITSELF and isinstance(left[name], Mapping):
            left[name] = name
    options["outputs"] = list(left) if kind == "python" else left
    return views, problems


def _take(path: str, kind: str, given: Any) -> tuple[View | None, Any, list[Problem]]:
    """The view in one entry of `outputs`, what else is in it, and what is wrong with it."""
    if not isinstance(given, Mapping):
        wrong = kind == "python"
        told = "a function names its outputs itself; give a table of what is declared of it"
        return None, given, [Problem(path, f"{told} (found {given!r})")] if wrong else []
    keys = {key: value for key, value in given.items() if key in _KEYS}
    rest = {key: value for key, value in given.items() if key not in _KEYS}
    problems = []
    if kind in _NAMES_ITSELF and "from" in keys:
        del keys["from"]
        problems.append(Problem(f"{path}.from", "such a runner names its outputs itself"))
    if kind != "null":
        problems += [
            Problem(f"{path}.{key}", f"isn't a known key of an output{did_you_mean(key, _KEYS)}")
            for key in rest
        ]
        if kind != "python" and not given:
            problems.append(Problem(path, "says nothing; name the output, or what is declared"))
    try:
        return View.model_validate(keys), rest, problems
    except ValidationError as e:
        return None, rest, [*problems, *describe_errors(path, e, View, kind)]


def put_views(outputs: Any, views: Mapping[str, View]) -> Any:
    """The `outputs` of a runner's options with its views in it, as in a plan."""
    if not views:
        return outputs
    if isinstance(outputs, list | tuple):
        return {name: views[name].to_plan() if name in views else {} for name in outputs}
    table = dict(outputs or {})
    for name, view in views.items():
        given = table.get(name)
        named = {"from": given} if isinstance(given, str) and given != name else {}
        table[name] = {**(given if isinstance(given, Mapping) else named), **view.to_plan()}
    return table
