"""`verify`: the check that everybody writes by hand after an export, done right."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from paritygate.api.plans import as_tables, decision_tables, load_plan
from paritygate.api.result import RunResult
from paritygate.core.dtypes import DTYPES, dtype_name
from paritygate.core.errors import PlanError, Problem
from paritygate.core.events import ignore
from paritygate.core.tensors import Array
from paritygate.golden.write import PackWriter, tensor_batch
from paritygate.pipeline.execute import Options, execute
from paritygate.pipeline.prepare import CallableRunner
from paritygate.runners.torch_load import is_program, is_tensor

RunnerLike = str | Path | Mapping[str, Any] | Callable[..., Any]
Inputs = Mapping[str, Any]


_PLAN = "; a constant, or samples on another axis, need a plan: [constants], [inputs.NAME] shape"


def verify(
    ref: RunnerLike,
    cand: RunnerLike,
    inputs: Inputs | Sequence[Inputs],
    *,
    atol: float,
    rtol: float,
    nonfinite: Literal["fail", "match"] = "fail",
    tolerances: Mapping[str, Mapping[str, Any]] | None = None,
    decisions: Mapping[str, Mapping[str, Any]] | Sequence[str] = (),
    outputs: str | Sequence[str] = (),
    out: str | Path | None = None,
) -> RunResult:
    """Run both sides on the same inputs and judge every output element and every decision.

    Args:
        ref: a model path, a runner table as in a plan, a callable that maps a dict of arrays
            to a dict of named arrays; or an `nn.Module` or `ExportedProgram` as it is, whose inputs
            are named as its forward names them. It is evaluated where its parameters are, and its
            training flags are put back.
        cand: the same for the candidate.
        inputs: name -> array or tensor `(batch, ...)`; or a list of such dicts, each run as one
            batch of its own size (zeros, ones, other batch sizes, scaled values).
        atol: absolute tolerance for float outputs; others are exact.
        rtol: relative to the reference.
        nonfinite: "fail", or "match": the same class and sign in the same place is equal.
        tolerances: output -> `{atol, rtol, ...}` as in a plan, in place of the default.
        decisions: name -> `{output, bands | argmax | ...}` as in a plan; or rules
            `"OUTPUT: accept < 0.2 <= review"`.
        outputs: names of the outputs of callables and modules that return a plain array or tensor,
            or a sequence.
        out: parent of a run folder; None leaves none.

    Returns:
        The typed result; sample ids are `"<batch>/<row>"`. Use `.raise_for_hold()` in tests.

    Raises:
        ParityError: the comparison could not judge, such as inputs that a model doesn't take.
    """
    arrays = _check_batches(_batches(inputs))
    names = _names(outputs)
    sizes = [len(next(iter(batch.values()))) for batch in arrays]
    with tempfile.TemporaryDirectory(prefix="paritygate-verify-") as folder:
        pack = Path(folder) / "inputs.arrow"
        _write_pack(pack, arrays)
        plan = {
            "name": "verify",
            "golden": str(pack),
            "dims": {"batch": {"sizes": sorted({n for n in sizes if n})}} if any(sizes) else {},
            "runners": {"reference": _runner(ref), "candidate": _runner(cand)},
            "stages": [_stage(atol, rtol, nonfinite, tolerances or {})],
            "decisions": _decisions(decisions or ()),
        }
        options = Options(
            out=Path(out) if out is not None else None,
            threads=1,
            cuts=tuple(n for n in sizes if n),
            callables={
                name: CallableRunner(side, names, is_program=is_program(side))
                for name, side in (("reference", ref), ("candidate", cand))
                if callable(side)
            },
            observer=ignore,
        )
        return RunResult.of(execute(load_plan(plan), options))


def _stage(
    atol: float, rtol: float, nonfinite: str, tolerances: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    return {
        "name": "verify",
        "reference": "reference",
        "candidate": "candidate",
        "default": {"atol": atol, "rtol": rtol, "nonfinite": nonfinite},
        "outputs": as_tables(tolerances),
    }


def _decisions(given: Any) -> dict[str, Any]:
    if isinstance(given, Mapping):
        return as_tables(given)
    rules = [given] if isinstance(given, str) else given
    if isinstance(rules, Sequence) and all(isinstance(rule, str) for rule in rules):
        return decision_tables(rules, ())
    message = "is a mapping of name -> table, or rules 'OUTPUT: accept < 0.2 <= review' as text"
    raise PlanError([Problem("decisions", f"{message} (found {given!r:.80})")], "verify")


def _names(outputs: str | Sequence[str]) -> tuple[str, ...]:
    """Names of outputs in order; a text is one name."""
    names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
    if len(set(names)) != len(names):
        message = f"names an output twice, of which one would be lost (found {list(names)})"
        raise PlanError([Problem("outputs", message)], "verify")
    return names


def _runner(given: RunnerLike) -> Any:
    if isinstance(given, Path):
        return str(given)
    if is_program(given):
        return {"kind": "torch", "factory": "verify:module"}
    if callable(given):
        return {"kind": "python", "call": "verify:callable"}
    return given


def _batches(inputs: Inputs | Sequence[Inputs]) -> list[Inputs]:
    batches: list[Any] = list(inputs) if isinstance(inputs, list | tuple) else [inputs]
    wrong = [batch for batch in batches if not isinstance(batch, Mapping)]
    if wrong:
        found = type(wrong[0]).__name__
        message = f"is a dict of name -> array, or a list of such dicts (found {found})"
        raise PlanError([Problem("inputs", message)], "verify")
    return batches


def _check_batches(batches: Sequence[Inputs]) -> list[dict[str, Array]]:
    """Every batch as arrays: the same names, dtypes and sample shapes, one number of rows each."""
    if not batches:
        raise PlanError([Problem("inputs", "is empty; give at least one dict of arrays")], "verify")
    masked = [
        Problem(f"inputs[{i}].{name}", "is a masked array, whose mask would be lost; fill it first")
        for i, batch in enumerate(batches)
        for name, value in batch.items()
        if isinstance(value, np.ma.MaskedArray)
    ]
    if masked:
        raise PlanError(masked, "verify")
    arrays, problems = _all_arrays(batches)
    if problems:
        raise PlanError(problems, "verify")
    first = arrays[0]
    for number, batch in enumerate(arrays):
        path = f"inputs[{number}]"
        if not batch:
            problems.append(Problem(path, "has no input"))
        if set(batch) != set(first):
            problems.append(Problem(path, f"has {sorted(batch)}, the first has {sorted(first)}"))
            continue
        problems += _check_batch(path, batch, first, is_only=len(arrays) == 1)
    if problems:
        raise PlanError(problems, "verify")
    return arrays


def _all_arrays(batches: Sequence[Inputs]) -> tuple[list[dict[str, Array]], list[Problem]]:
    """Arrays as they are, NumPy's own texts as objects; and what can't be made one."""
    arrays: list[dict[str, Array]] = []
    problems: list[Problem] = []
    for number, batch in enumerate(batches):
        taken: dict[str, Array] = {}
        for name, value in batch.items():
            found = _taken(value)
            if isinstance(found, str):
                problems.append(Problem(f"inputs[{number}].{name}", found))
            else:
                taken[name] = found
        arrays.append(taken)
    return arrays, problems


def _taken(value: Any) -> Array | str:
    """An array; or what is wrong with the value."""
    if is_tensor(value):
        from paritygate.runners.torch_arrays import array_or_problem

        return array_or_problem(value, "give ")
    try:
        array = np.asarray(value)
    except Exception as e:  # lists of unequal lengths; whatever an object's own method raises
        return f"can't be made an array ({type(e).__name__}: {str(e)[:200]})"
    return array.astype(object) if array.dtype.kind in "UT" else array


def _check_batch(
    path: str, batch: Mapping[str, Array], first: Mapping[str, Array], *, is_only: bool
) -> list[Problem]:
    problems, rows = [], {}
    for name, array in batch.items():
        where = f"{path}.{name}"
        if array.ndim == 0:
            problems.append(Problem(where, f"is a scalar; the first axis is the batch{_PLAN}"))
            continue
        if dtype_name(array.dtype) not in DTYPES:
            problems.append(Problem(where, f"is {array.dtype}; known: {', '.join(DTYPES)}"))
        elif array.dtype == object and not all(isinstance(v, str) for v in array.reshape(-1)):
            problems.append(Problem(where, "is an array of objects, not all of which are texts"))
        rows[name] = len(array)
        like = first[name]
        if (array.dtype, array.shape[1:]) != (like.dtype, like.shape[1:]):
            problems.append(
                Problem(
                    where,
                    f"is {array.dtype}{list(array.shape[1:])} a sample, in the first batch "
                    f"{like.dtype}{list(like.shape[1:])}; call verify once a shape",
                )
            )
    if rows and not any(rows.values()) and not is_only:
        problems.append(Problem(path, "has no rows; leave it out"))
    if len(set(rows.values())) > 1:
        problems.append(Problem(path, f"has inputs of unequal batch sizes: {rows}{_PLAN}"))
    return problems


def _write_pack(path: Path, batches: Sequence[Mapping[str, Array]]) -> None:
    writer: PackWriter | None = None
    for number, batch in enumerate(batches):
        rows = len(next(iter(batch.values())))
        ids = pa.array([f"{number}/{row}" for row in range(rows)], pa.string())
        native = {f"in.{name}": a.astype(a.dtype.newbyteorder("=")) for name, a in batch.items()}
        record = tensor_batch(native).add_column(0, "sample_id", ids)
        if writer is None:
            writer = PackWriter(path, record.schema)
        writer.write(record)
    if writer is not None:
        writer.close()
