"""One failing sample in one stage: both sides, the worst element, the rule, what to look at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from paritygate.core.errors import ParityError
from paritygate.core.plan import Stage
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Array, is_float
from paritygate.core.verdict import rule_names
from paritygate.diagnosis.advice import advise
from paritygate.diagnosis.commands import replay_command
from paritygate.diagnosis.magnitude import assess, precision_of
from paritygate.diagnosis.patterns import Pair, Pattern, find_patterns, swapped_outputs
from paritygate.runfolder.reading import FailedSample, FinishedRun, Tensors

LOOKED_AT = 16
_COMPARED = ("tolerance.", "nonfinite.", "decision.flip")


def explain_failure(run: FinishedRun, sample: FailedSample) -> dict[str, Any]:
    """All that a run folder tells of one failing sample in one stage, as plain data.

    Raises:
        ParityError: the folder's plan or shard can't be read.
    """
    summary = run.stage(sample.stage)
    stage = next(s for s in run.plan.stages if s.name == sample.stage)
    sides = {
        "reference": _side(run, stage.reference),
        "candidate": _side(run, stage.candidate),
    }
    found: dict[str, Any] = {
        "stage": sample.stage,
        "id": sample.id,
        "row": _row(run, sample),
        "rules": sample.rules,
        "is_kept": sample.place is not None,
        **sides,
        "batch": sample.values.get("batch"),
        "batch_position": sample.values.get("batch_position"),
        "decisions": _decisions(run, sample),
        "outputs": {},
    }
    if sample.place is not None:
        tensors = run.tensors(sample)
        found["inputs"] = {name: _layout(array) for name, array in tensors.inputs.items()}
        others = _others(run, sample)
        for name in _judged(stage, tensors):
            found["outputs"][name] = _Output(run, stage, name, tensors, others).describe()
    found["next"] = advise(found, summary)
    found["replay"] = replay_command(run.folder, [sample.id])
    found["replay_with_batch"] = replay_command(run.folder, [sample.id], with_batch=True)
    return found


def worst_of(
    run: FinishedRun, sample: FailedSample, output: str, rule: str
) -> dict[str, Any] | None:
    """The worst element of one output, in the words of a shard; None where it breaks no such rule.

    Raises:
        ParityError: the folder's plan or shard can't be read.
    """
    stage = next(s for s in run.plan.stages if s.name == sample.stage)
    told = _Output(run, stage, output, run.tensors(sample), ()).describe_elements()
    worst = told.get("worst")
    if worst is None or rule not in told["rules"]:
        return None
    if worst["error"] is None:  # texts
        return {"output": output, "index": None, "excess": None}
    return {
        "output": output,
        "index": worst["index"],
        "ref_value": float(worst["reference"]["value"]),
        "cand_value": float(worst["candidate"]["value"]),
        "abs_error": float(worst["error"]),
        "allowed": worst["allowed"],
        "excess": worst["excess"],
    }


def _row(run: FinishedRun, sample: FailedSample) -> int:
    """Row over all golden files; a replay, whose rows are its own, says which it was then."""
    replayed = run.summary.get("replay")
    then = replayed.get("samples", []) if isinstance(replayed, Mapping) else []
    return next((int(s["row"]) for s in then if s["id"] == sample.id), sample.row)


def _side(run: FinishedRun, name: str) -> dict[str, Any]:
    """What is known of a runner, but for what only machines read."""
    facts = run.summary["runners"].get(name)
    facts = facts if isinstance(facts, Mapping) else {}
    model = facts.get("model")
    model = model if isinstance(model, Mapping) else {}
    return {
        "runner": name,
        "kind": facts.get("kind"),
        "model": model.get("path", facts.get("call", facts.get("path"))),
        "digest": model.get("digest", facts.get("source_sha256", facts.get("digest"))),
        "opsets": model.get("opsets"),
        "precision": facts.get("precision"),
        "batch_size": facts.get("batch_size"),
        "runtime_version": facts.get("runtime_version"),
        "providers": facts.get("providers_in_force"),
    }


def _decisions(run: FinishedRun, sample: FailedSample) -> dict[str, dict[str, Any]]:
    rules = {rule.name: rule for rule in run.plan.decisions}
    told = {}
    for name, found in sample.decisions.items():
        rule = rules.get(name)
        if _is_undecided(sample, rule, found):
            found = dict.fromkeys(found)
        flipped = found.get("ref") != found.get("cand") or found.get("ref") == "undefined"
        told[name] = {
            **found,
            "output": rule.output if rule is not None else None,
            "flipped": flipped and "decision.flip" in sample.rules,
        }
    return told


def _is_undecided(
    sample: FailedSample, rule: DecisionRule | None, found: Mapping[str, Any]
) -> bool:
    """Whether nothing was decided of it, of which a shard has empty texts; a value may be one."""
    if found.get("ref") or found.get("cand"):
        return False
    is_compared = all(broken.startswith(_COMPARED) for broken in sample.rules)
    return not (is_compared and rule is not None and rule.equal)


def _judged(stage: Stage, tensors: Tensors) -> list[str]:
    names = dict.fromkeys([*tensors.ref, *tensors.cand])
    return [name for name in names if stage.judges(name)]


def _others(run: FinishedRun, sample: FailedSample) -> list[Tensors]:
    """Tensors of a few more failing samples of the stage, this one's neighbours in the shard."""
    kept = [s for s in run.kept(sample.stage) if s.place != sample.place]
    step = max(1, len(kept) // (LOOKED_AT - 1))
    return [run.tensors(other) for other in kept[::step][: LOOKED_AT - 1]]


class _Output:
    """One output of the sample on both sides."""

    def __init__(
        self,
        run: FinishedRun,
        stage: Stage,
        name: str,
        tensors: Tensors,
        others: Sequence[Tensors],
    ) -> None:
        self.run, self.stage, self.name = run, stage, name
        self.tensors, self.others = tensors, others
        self.ref, self.cand = tensors.ref.get(name), tensors.cand.get(name)
        dtype = dtype_name(self.ref) if self.ref is not None else "float32"
        found = stage.tolerance(name, is_float=is_float(dtype))
        self.tolerance = found or Tolerance()

    def describe(self) -> dict[str, Any]:
        """Layouts, the worst element, what is usual, and patterns."""
        told: dict[str, Any] = {
            "reference": _layout(self.ref),
            "candidate": _layout(self.cand),
            "tolerance": {
                "atol": self.tolerance.atol,
                "rtol": self.tolerance.rtol,
                "nonfinite": self.tolerance.nonfinite,
                "max_abs": self.tolerance.max_abs,
            },
            "rules": [],
            "patterns": [],
        }
        if self.ref is None or self.cand is None:
            return told
        if self.ref.shape == self.cand.shape:
            told.update(self._elements(self.ref, self.cand))
        if told["rules"] or self.ref.shape != self.cand.shape:
            told["patterns"] = [p.to_json() for p in self._patterns(self.ref, self.cand)]
        return told

    def describe_elements(self) -> dict[str, Any]:
        """The worst element and the rules that it breaks; nothing where the shapes differ."""
        if self.ref is None or self.cand is None or self.ref.shape != self.cand.shape:
            return {}
        return self._elements(self.ref, self.cand)

    def _elements(self, ref: Array, cand: Array) -> dict[str, Any]:
        if ref.dtype == cand.dtype == object:
            return self._texts(ref, cand)
        try:
            _, detail = _compare(self.tolerance, ref[None], cand[None])
        except (ParityError, ValueError) as e:  # dtypes that aren't compared with one another
            return {"note": str(e)}
        worst = int(detail.worst_index[0])
        told: dict[str, Any] = {
            "rules": rule_names(int(detail.rules[0])),
            "elements": ref.size,
            "failing_elements": int(detail.failing_elements[0]),
        }
        if worst >= 0:
            told["worst"] = self._worst(ref, cand, worst)
        return told

    def _texts(self, ref: Array, cand: Array) -> dict[str, Any]:
        """Texts are equal or not; the first that isn't stands for the worst."""
        pairs = zip(ref.reshape(-1).tolist(), cand.reshape(-1).tolist(), strict=True)
        unequal = [at for at, (left, right) in enumerate(pairs) if left != right]
        told: dict[str, Any] = {"elements": ref.size, "failing_elements": len(unequal)}
        if unequal:
            told["worst"] = self._worst(ref, cand, unequal[0])
        return {**told, "rules": ["tolerance.exceeded"] if unequal else []}

    def _worst(self, ref: Array, cand: Array, at: int) -> dict[str, Any]:
        sides = describe_value(ref, at), describe_value(cand, at)
        told: dict[str, Any] = {
            "index": at,
            "place": [int(i) for i in np.unravel_index(at, ref.shape)],
            "reference": sides[0],
            "candidate": sides[1],
        }
        if ref.dtype == object:  # texts are equal or not
            return {**told, "error": None, "allowed": None, "excess": None, "magnitude": None}
        pair = ref.reshape(-1)[at : at + 1], cand.reshape(-1)[at : at + 1]
        tally, detail = _compare(self.tolerance, *(side[None] for side in pair))
        values = sides[0]["value"], sides[1]["value"]
        error = abs(values[1] - values[0])
        steps = tally.figures().get("max_ulp")
        return {
            **told,
            "error": error,
            "allowed": self.tolerance.atol + self.tolerance.rtol * abs(float(values[0])),
            "excess": float(detail.worst_excess[0]),
            "ulp": steps["value"] if isinstance(steps, Mapping) else None,
            "ulp_of": sides[1]["dtype"] if is_float(sides[1]["dtype"]) else None,
            "magnitude": self._assess(ref, cand, float(error)),
        }

    def _assess(self, ref: Array, cand: Array, error: float) -> dict[str, Any] | None:
        names = dtype_name(ref), dtype_name(cand)
        if not all(is_float(name) for name in names):
            return None
        runners = self.run.summary["runners"]
        sides = self.stage.reference, self.stage.candidate
        precisions = [
            precision_of(runners.get(side) or {}, name)
            for side, name in zip(sides, names, strict=True)
        ]
        return assess(error, self._scale(ref), (precisions[0], precisions[1]))

    def _scale(self, ref: Array) -> float:
        """The output's magnitude: this sample's largest element, or the whole run's RMS."""
        values = np.abs(np.asarray(ref, np.float64))
        own = float(values[np.isfinite(values)].max(initial=0.0))
        figures = self.run.stage(self.stage.name)["outputs"].get(self.name)
        noise, ratio = (
            (figures.get("rmse"), figures.get("sqnr_db")) if isinstance(figures, dict) else (0, 0)
        )
        if not isinstance(noise, int | float) or not isinstance(ratio, int | float):
            return own
        with np.errstate(over="ignore"):
            rms = float(noise * np.float64(10.0) ** (ratio / 20))
        return max(own, rms) if math.isfinite(rms) else own

    def _patterns(self, ref: Array, cand: Array) -> list[Pattern]:
        other = swapped_outputs(self.tensors.ref, self.tensors.cand, self.name, self.tolerance)
        if other is not None:
            return [Pattern("swapped", f"under the name {other!r}, and that one under this", 1, 1)]
        sides = [(ref, cand)]
        sides += [
            (t.ref[self.name], t.cand[self.name])
            for t in self.others
            if self.name in t.ref and self.name in t.cand
        ]
        pairs = [pair for pair in (Pair.of(*side) for side in sides) if pair is not None]
        if not pairs:
            return []
        failing = [pairs[0], *(p for p in pairs[1:] if not _is_equal(p))]
        return find_patterns(failing, self.tolerance)


def _is_equal(pair: Pair) -> bool:
    return pair.ref.shape == pair.cand.shape and bool(np.array_equal(pair.ref, pair.cand))


def _compare(tolerance: Tolerance, ref: Array, cand: Array) -> Any:
    from paritygate.comparison.elements import ElementComparer

    names = dtype_name(ref), dtype_name(cand)
    comparer = ElementComparer(tolerance, *names, ref.shape[1:], "full")
    return comparer.compare(ref, cand, np.zeros(1, np.int64))


def dtype_name(array: Array) -> str:
    """Our name of an array's dtype: an object array holds texts."""
    return "string" if array.dtype == object else array.dtype.name


def describe_value(array: Array, index: int) -> dict[str, Any]:
    """An element whole: `value`, its `dtype`, as `text` and, for floats, `hex`.

    Args:
        array: of any shape.
        index: into it, flat.
    """
    value: Any = array.reshape(-1)[index]
    dtype = dtype_name(array)
    if dtype == "string":
        return {"value": value, "dtype": dtype, "text": repr(value)}
    if dtype == "bool":
        return {"value": bool(value), "dtype": dtype, "text": str(bool(value)).lower()}
    if not is_float(dtype):
        return {"value": int(value), "dtype": dtype, "text": str(int(value))}
    wide = float(value)
    text = repr(wide) if dtype == "float64" else f"{wide:.9g}"
    return {"value": wide, "dtype": dtype, "text": text, "hex": wide.hex()}


def _layout(array: Array | None) -> str | None:
    return None if array is None else f"{dtype_name(array)}{list(array.shape)}"
