"""Judge one block of one stage: align both sides, compare each output, derive each decision."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec.structs import replace

from paritygate.comparison.decide.detail import AnyDetail
from paritygate.comparison.decide.function import DecisionError
from paritygate.comparison.decided import Decided
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.details import SampleDetail
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.groups import Group, groups_of
from paritygate.comparison.marks import Marks
from paritygate.comparison.rows import Ints, Mask, SampleRows, Side, is_all
from paritygate.core.dtypes import dtype_name
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.ragged import Ragged, Tensor, varying_dims
from paritygate.core.shapes import fits, sample_dims
from paritygate.core.tensors import Array
from paritygate.core.verdict import SAMPLE_RULES
from paritygate.gpu.tensor import DeviceTensor, fetch, lying, on_host
from paritygate.tally.constant import Constancy
from paritygate.tally.decision import DecisionTally
from paritygate.tally.output import OutputTally
from paritygate.tally.stage import FirstError

if TYPE_CHECKING:
    from paritygate.comparison.placed import PlacedComparer
    from paritygate.comparison.placed_decisions import PlacedDecisions
    from paritygate.comparison.sent_decisions import SentDecisions
    from paritygate.comparison.stage import BoundRule, StageComparer

_FIRST = 16  # samples


class Judged:
    """What has been found out about a block so far: one row a sample that was run."""

    def __init__(self, comparer: StageComparer, samples: SampleRows, ref: Side, cand: Side) -> None:
        self.comparer = comparer
        self.samples = samples
        self.ref = ref
        self.cand = cand
        self.marks = Marks(samples.count)
        self.outputs: dict[str, OutputTally] = {}
        self.details: dict[str, SampleDetail] = {}
        self.constant: dict[str, Constancy] = {}
        self.tallies: dict[str, DecisionTally] = {}
        self.decided: dict[str, Decided] = {}
        self.errors: dict[str, FirstError] = {}
        self.undeclared: dict[tuple[str, str], int] = {}
        self.layouts: dict[tuple[str, str, str], int] = {}
        self._lazy: dict[str, tuple[ElementComparer, Group]] = {}
        self._begun: dict[tuple[str, str], Callable[[], Any]] = {}
        self.both: Mask = ref.answered
        self.is_whole = True

    def align(self) -> None:
        """Find the samples that both sides answered; the others fail by themselves."""
        for name, side in (("reference", self.ref), ("candidate", self.cand)):
            if not is_all(side.answered):
                self._mark("sample.missing", name, side.missing)
                self._mark_unanswered(name, side, self.cand if side is self.ref else self.ref)
                self.both = self.ref.answered & self.cand.answered
                self.is_whole = False

    @property
    def compared(self) -> int:
        """Samples that both sides answered."""
        return self.samples.count if self.is_whole else int(np.count_nonzero(self.both))

    def _mark_unanswered(self, name: str, side: Side, other: Side) -> None:
        """Samples that a runner gave no answer for; where the other did, the two disagree."""
        left = ~side.answered & ~side.missing
        for rule, mask in _by_rule(side).items():
            left &= ~mask
            if rule == "runner.disagreement":
                self._mark(rule, name, mask & other.answered)
                rule, mask = "runner.error", mask & ~other.answered
            self._mark(rule, name, mask)
        self._mark("runner.error", name, left)
        self._tell_unanswered(name, side, other)

    def _tell_unanswered(self, name: str, side: Side, other: Side) -> None:
        for rule in SAMPLE_RULES:
            rows = self.marks.subjects.get((rule, name))
            if rows is None or not rule.startswith("runner."):
                continue
            mask = np.zeros_like(side.answered)
            mask[rows] = True
            error = side.error(self.samples.ordinals, among=mask)
            if error is None:
                continue
            if rule != "runner.error" and other.answered[rows[0]]:
                told = ", ".join(
                    f"{output} {_layout_of(tensor)}" for output, tensor in other.outputs.items()
                )
                whose = "candidate" if name == "reference" else "reference"
                error = replace(error, text=f"the {whose} answered {told}, but {error.text}")
            self.errors[f"{name} {rule}"] = error

    def _mark(self, rule: str, subject: str, mask: Mask) -> None:
        self.marks.add(rule, subject, np.flatnonzero(mask))

    def begin(self, outputs: Iterable[str]) -> None:
        """Have a GPU begin with what lies there: once it is waited for, all of it is done."""
        if not (self.compared and self.is_whole):
            return
        for output in outputs:
            ref, cand = (lying(side.outputs).get(output) for side in (self.ref, self.cand))
            if not (isinstance(ref, DeviceTensor) and isinstance(cand, DeviceTensor)):
                continue
            dtypes = dtype_name(ref.dtype), dtype_name(cand.dtype)
            tolerance = self.comparer.tolerance(output, dtypes[0])
            if tolerance is None or not self.comparer.takes_device(output):
                continue
            group = Group(None, ref, cand)
            if not self._structure_rule(output, tolerance, group.ref, group.cand):
                self._begin(output, tolerance, group, dtypes)

    def _begin(
        self, output: str, tolerance: Tolerance, group: Group, dtypes: tuple[str, str]
    ) -> None:
        shape = tuple(group.ref.shape[1:])
        elements = self.comparer.element_comparer(output, tolerance, *dtypes, shape)
        if not elements.takes_device:
            return
        placed = cast("PlacedComparer", elements)
        places = self.samples.counted()[1]
        begun: dict[tuple[str, str], Callable[[], Any] | None] = {
            ("", output): placed.begin(group.ref, group.cand, places)
        }
        for policy, decision, there in self.comparer.bound_rules(output, tolerance, dtypes, shape):
            if there is not None:
                truth = self._truth(policy, decision, group)
                ordinals = self.samples.ordinals
                waits = there.begin(group.ref, group.cand, ordinals, truth)
                begun[("decision", policy.name)] = waits
        self._begun |= {key: waits for key, waits in begun.items() if waits is not None}

    def judge_output(self, output: str) -> None:
        """Judge one output of the samples that both sides answered."""
        if not self.compared:
            return
        sides: dict[str, Any] = {
            "reference": lying(self.ref.outputs).get(output),
            "candidate": lying(self.cand.outputs).get(output),
        }
        dtype = next((dtype_name(a.dtype) for a in sides.values() if a is not None), "float64")
        tolerance = self.comparer.tolerance(output, dtype)
        if tolerance is None:
            for side, array in sides.items():
                if array is not None:
                    self.undeclared[(side, output)] = self.compared
            return
        ref, cand = sides["reference"], sides["candidate"]
        if ref is None or cand is None:
            for side, array in sides.items():
                if array is None:
                    self._mark("output.missing", f"{side}:{output}", self.both)
            return
        if isinstance(ref, DeviceTensor) or isinstance(cand, DeviceTensor):
            is_plain = self.is_whole and not (isinstance(ref, Ragged) or isinstance(cand, Ragged))
            if not (is_plain and self.comparer.takes_device(output)):
                ref, cand = on_host(ref), on_host(cand)
        parts: list[tuple[Ints, SampleDetail]] = []
        for group in groups_of(ref, cand, None if self.is_whole else self.both):
            rule = self._structure_rule(output, tolerance, group.ref, group.cand)
            if rule:
                self._mark(rule, output, group.mask(self.samples.count))
                layout = (output, _layout(group.ref), _layout(group.cand))
                self.layouts[layout] = self.layouts.get(layout, 0) + group.samples
            else:
                self._judge_pair(output, tolerance, group, parts)
        if parts:
            self.details[output] = SampleDetail.joined(parts, self.samples.count)
        if output in self.details:
            self.marks.add_rules(output, *self.details[output].failed())

    def _structure_rule(
        self, output: str, tolerance: Tolerance, ref: Array, cand: Array
    ) -> str | None:
        contract = self.comparer.plan.table.outputs.get(output)
        if contract is not None:
            if contract.dtype is not None and dtype_name(ref.dtype) != contract.dtype:
                return "dtype.mismatch"
            if contract.shape is not None and not self._fits(ref, contract.shape):
                return "shape.mismatch"
        if dtypes_disagree(tolerance, dtype_name(ref.dtype), dtype_name(cand.dtype)):
            return "dtype.mismatch"
        return "shape.mismatch" if ref.shape[1:] != cand.shape[1:] else None

    def _fits(self, array: Array, shape: list[int | str]) -> bool:
        bounds = self.comparer.plan.table.dims.bounds()
        return fits(array.shape[1:], sample_dims(shape), bounds)

    def _judge_pair(
        self,
        output: str,
        tolerance: Tolerance,
        group: Group,
        parts: list[tuple[Ints, SampleDetail]],
    ) -> None:
        dtypes = dtype_name(group.ref.dtype), dtype_name(group.cand.dtype)
        shape = tuple(group.ref.shape[1:])
        elements = self.comparer.element_comparer(output, tolerance, *dtypes, shape)
        if not elements.takes_device:
            group = group.on_host()
        rules = self.comparer.bound_rules(output, tolerance, dtypes, shape)
        along: dict[str, SentDecisions] = {}
        if group.rows is None and isinstance(elements, ElementComparer):
            first, places = self.samples.counted()
            begun = self._begun.pop(("", output), None)
            if begun is None and elements.takes_device:
                along = self._along(rules, group)
            tally, self.details[output] = (
                begun() if begun else _compared(elements, group, places, along)
            )
            tally = tally.moved(first)
            self._lazy[output] = elements, group
        else:
            ordinals = group.of(self.samples.ordinals)
            tally, detail = elements.compare(group.ref, group.cand, ordinals)
            parts.append((group.all_rows(), detail))
        self.outputs[output] = _merged(self.outputs.get(output), tally)
        self._note_constancy(output, group)
        for rule in rules:
            self._decide(*rule, group, along.get(rule[0].name))

    def _along(self, rules: Iterable[BoundRule], group: Group) -> dict[str, SentDecisions]:
        """Decisions that are made as samples are sent to a GPU for their elements."""
        ordinals = self.samples.ordinals
        made = {
            policy.name: there.along(
                group.ref, group.cand, ordinals, self._truth(policy, decision, group)
            )
            for policy, decision, there in rules
            if there is not None
        }
        return {name: sent for name, sent in made.items() if sent is not None}

    def look_at(self, rows: Ints) -> None:
        """Look for the worst elements of samples in outputs that were good there."""
        for output, (elements, group) in self._lazy.items():
            if self.comparer.rules_of(output):  # what was decided of them is told
                group.fetch(rows)
            elements.look_at(self.details[output], rows, group.ref, group.cand)

    def fetch(self, rows: Ints) -> None:
        """Bring samples, which were looked at, to the host; what a GPU found of them is confirmed.

        Raises:
            DeviceError: the GPU failed, or found something else than is true of them.
        """
        for side in (self.ref, self.cand):
            for tensor in lying(side.outputs).values():
                fetch(tensor, rows)
        for output, (elements, group) in self._lazy.items():
            if elements.takes_device:
                elements.confirm(self.details[output], rows, group.ref, group.cand)

    def _note_constancy(self, output: str, group: Group) -> None:
        """One block in which an output varies is enough: the others needn't be looked at."""
        varying = self.comparer.varying
        found = Constancy.varied(group.samples)
        if output not in varying:
            found = _constancy_of(group)
            if found == Constancy.varied(group.samples):
                varying.add(output)
        self.constant[output] = _merged(self.constant.get(output), found)

    def _decide(
        self,
        policy: DecisionRule,
        decision: DecisionComparer,
        there: PlacedDecisions | None,
        group: Group,
        sent: SentDecisions | None,
    ) -> None:
        name = policy.name
        ordinals = group.of(self.samples.ordinals)
        try:
            found: tuple[DecisionTally, AnyDetail] | None = None
            begun = self._begun.pop(("decision", name), None)
            if sent is not None:
                found = sent.found()
            elif begun is not None:
                found = begun()
            elif there is not None:
                truth = self._truth(policy, decision, group)
                found = there.compare_lazily(group.ref, group.cand, ordinals, truth)
            if found is None:
                group = group.on_host()
                truth = self._truth(policy, decision, group)
                found = decision.compare_lazily(group.ref, group.cand, ordinals, truth)
                self.comparer.decided_here(policy, len(ordinals))
            tally, detail = found
        except DecisionError as e:
            self._mark("decision.error", name, group.mask(self.samples.count))
            error = FirstError(int(ordinals[0]), str(e), len(ordinals))
            subject = f"decision {name}"
            self.errors[subject] = _merged(self.errors.get(subject), error)
            return
        self.tallies[name] = _merged(self.tallies.get(name), tally)
        flipped = self.decided.setdefault(name, Decided()).add(group, detail)
        self.marks.add("decision.flip", name, flipped)

    def _truth(self, rule: DecisionRule, comparer: DecisionComparer, group: Group) -> Ints | None:
        labels = self.samples.labels.get(rule.label_column or "")
        return None if labels is None else comparer.truth_codes(group.of(labels))


def _compared(
    elements: ElementComparer, group: Group, places: Ints, along: Mapping[str, SentDecisions]
) -> tuple[OutputTally, SampleDetail]:
    """Elements of a block, and where these are sent to a GPU what is decided along."""
    given: dict[str, Any] = {"along": tuple(along.values())} if along else {}
    return elements.compare(group.ref, group.cand, places, is_lazy=True, in_order=True, **given)


def _constancy_of(group: Group) -> Constancy:
    """The first samples are enough where these differ: no others come from a GPU."""
    ref, cand = (on_host(side[:_FIRST]) for side in (group.ref, group.cand))
    if Constancy.of(ref, cand) == Constancy.varied(len(ref)):
        return Constancy.varied(group.samples)
    group = group.on_host()
    return Constancy.of(group.ref, group.cand)


def _by_rule(side: Side) -> dict[str, Mask]:
    """Samples without an answer by the rule of why; each batch can have failed by itself."""
    rows: dict[str, list[Ints]] = {}
    for failure in side.failures:
        rows.setdefault(failure.rule, []).append(failure.rows)
    found = {}
    for rule, parts in rows.items():
        found[rule] = np.zeros_like(side.answered)
        found[rule][np.concatenate(parts)] = True
    return found


def _layout_of(tensor: Tensor) -> str:
    dims = ["batch", *("?" if d is None else d for d in varying_dims(tensor))]
    return f"{dtype_name(tensor.dtype)}[{', '.join(map(str, dims))}]"


def _layout(array: Array) -> str:
    return f"{dtype_name(array.dtype)}[{', '.join(map(str, ('batch', *array.shape[1:])))}]"


def dtypes_disagree(tolerance: Tolerance, ref: str, cand: str) -> bool:
    """Whether the dtypes disagree in a way that the plan doesn't declare."""
    return cand != (tolerance.candidate_dtype or ref)


def _merged(ours: Any, theirs: Any) -> Any:
    return theirs if ours is None else ours.merge(theirs)
