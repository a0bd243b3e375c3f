"""Then and now: one sample's answers and rules against those that the shard keeps."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from paritygate.comparison.rows import SampleRows, Side, StageResult
from paritygate.core.plan import Stage
from paritygate.core.tensors import Array
from paritygate.core.verdict import rule_names
from paritygate.diagnosis.sample import describe_value
from paritygate.runfolder.reading import FailedSample, FinishedRun

Outcome = Literal["bitwise", "same_rules", "not_reproduced"]
_PREFIXES = (("reference", "ref."), ("candidate", "cand."))


class Comparison:
    """Compares what the driver's threads hand on; one entry a sample and stage.

    Attributes:
        found: (stage, id) -> what was found, as plain data.
    """

    def __init__(
        self,
        run: FinishedRun,
        stages: Sequence[Stage],
        chosen: Mapping[str, Sequence[FailedSample]],
    ) -> None:
        self.found: dict[tuple[str, int | str], dict[str, Any]] = {}
        self._run = run
        self._stages = [stage for stage in stages if stage.name in chosen]
        self._chosen = {name: {s.id: s for s in samples} for name, samples in chosen.items()}
        self._lock = threading.Lock()

    def witness(
        self,
        samples: SampleRows,
        sides: Mapping[str, Side],
        results: Mapping[str, StageResult],
    ) -> None:
        """Compare the samples of one block; see `pipeline.span.Prepared.witness`."""
        with self._lock:
            for stage in self._stages:
                result = results[stage.name]
                broken = dict(
                    zip(result.failed.ordinals.tolist(), result.failed.rules.tolist(), strict=True)
                )
                pair = sides[stage.reference], sides[stage.candidate]
                for at, sample_id in enumerate(samples.ids.tolist()):
                    then = self._chosen[stage.name].get(sample_id)
                    if then is None:
                        continue
                    row = int(samples.ordinals[at])
                    kept = result.rows.get(row)
                    now = dict(kept.tensors) if kept is not None else _answers(pair, at)
                    rules = rule_names(broken.get(row, 0))
                    self.found[(stage.name, sample_id)] = self._compare(then, now, rules)

    def _compare(
        self, then: FailedSample, now: Mapping[str, Array], rules: list[str]
    ) -> dict[str, Any]:
        kept = self._run.tensors(then)
        before = {f"ref.{name}": array for name, array in kept.ref.items()}
        before.update((f"cand.{name}", array) for name, array in kept.cand.items())
        differing = [name for name in {**before, **now} if not _is_same(name, before, now)]
        outcome: Outcome = "not_reproduced"
        if rules == then.rules:
            outcome = "same_rules" if differing else "bitwise"
        return {
            "stage": then.stage,
            "id": then.id,
            "row": then.row,
            "outcome": outcome,
            "rules_then": then.rules,
            "rules_now": rules,
            "differs": differing,
            "worst": _worst(then, before, now),
        }


def _answers(pair: tuple[Side, Side], at: int) -> dict[str, Array]:
    return {
        f"{prefix}{name}": _row(array, at)
        for side, (_, prefix) in zip(pair, _PREFIXES, strict=True)
        if side.answered[at]
        for name, array in side.outputs.items()
    }


def _row(rows: Any, at: int) -> Array:
    """A copy of one sample's answer, as an array, also where it is a single value."""
    if isinstance(rows, np.ndarray):
        return rows[at : at + 1].reshape(rows.shape[1:]).copy()
    return np.array(rows[at])


def _is_same(name: str, before: Mapping[str, Array], now: Mapping[str, Array]) -> bool:
    """Whether both have an output, of one dtype and shape, equal to the last bit."""
    then, later = before.get(name), now.get(name)
    if then is None or later is None:
        return False
    if then.dtype != later.dtype or then.shape != later.shape:
        return False
    if then.dtype == object:
        return bool(np.array_equal(then, later))
    return np.ascontiguousarray(then).tobytes() == np.ascontiguousarray(later).tobytes()


def _worst(
    sample: FailedSample, before: Mapping[str, Array], now: Mapping[str, Array]
) -> dict[str, Any] | None:
    """Both sides' values then and now, at the element that was the worst then."""
    output, index = sample.values.get("output"), sample.values.get("index")
    if output is None or index is None:
        return None
    told: dict[str, Any] = {"output": output, "index": index}
    for side, prefix in _PREFIXES:
        for when, tensors in (("then", before), ("now", now)):
            told[f"{side}_{when}"] = _value(tensors.get(f"{prefix}{output}"), int(index))
    return told


def _value(array: Array | None, index: int) -> dict[str, Any] | None:
    if array is None or index >= array.size:
        return None
    return describe_value(array, index)


def count_outcomes(found: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many samples had each outcome."""
    return {name: sum(f["outcome"] == name for f in found) for name in _OUTCOMES}


_OUTCOMES = ("bitwise", "same_rules", "not_reproduced")


def tell(found: Mapping[str, Any]) -> str:
    """One sentence on a sample, without its id."""
    if found["outcome"] == "bitwise":
        return "reproduced bit for bit"
    if found["outcome"] == "same_rules":
        return (
            f"reproduced: the same rules fire; {', '.join(found['differs'])} differ in their bits"
        )
    then, now = (", ".join(found[f"rules_{when}"]) or "none" for when in ("then", "now"))
    return f"not reproduced: rules then {then}, now {now}{''.join(_values(found['worst']))}"


def _values(worst: Mapping[str, Any] | None) -> Iterator[str]:
    if worst is None:
        return
    yield f"; {worst['output']}[{worst['index']}]"
    for side, _ in _PREFIXES:
        texts = [_text(worst[f"{side}_{when}"]) for when in ("then", "now")]
        yield f" {side} {texts[0]} -> {texts[1]}"


def _text(value: Mapping[str, Any] | None) -> str:
    return str(value["text"]) if value is not None else "nothing"
