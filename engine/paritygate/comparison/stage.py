"""One stage: its tolerances and decisions, bound to dtypes and shapes, applied block by block."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import numpy as np

from paritygate.comparison.collect import collect
from paritygate.comparison.comparers import OutputComparer, make_comparer, make_placed
from paritygate.comparison.decide.base import only_on_cpu
from paritygate.comparison.decide.function import Function, load_function
from paritygate.comparison.decisions import DecisionComparer
from paritygate.comparison.elements import ElementComparer
from paritygate.comparison.judged import Judged, dtypes_disagree
from paritygate.comparison.place import Place
from paritygate.comparison.rows import KeepHint, SampleRows, Side, StageResult
from paritygate.core.errors import DeviceError, PlanError, Problem, gathering
from paritygate.core.plan import Plan, Stage
from paritygate.core.policy import DecisionRule, Tolerance
from paritygate.core.tensors import Shape, Stats, is_float

if TYPE_CHECKING:
    from paritygate.comparison.placed_decisions import PlacedDecisions

_WARM_ELEMENTS = 1 << 16
# A decision, what makes it on the CPU, and what does on a GPU.
BoundRule = tuple[DecisionRule, DecisionComparer, "PlacedDecisions | None"]


class StageComparer:
    """Compares both sides of one stage, block by block; safe for several threads.

    Attributes:
        varying: outputs that are known not to be constant on either side.
    """

    def __init__(self, plan: Plan, stage: Stage, stats: Stats, place: Place | None = None) -> None:
        self.stage = stage
        self._place = place
        self.plan = plan
        self._stats = stats
        self._elements: dict[tuple[object, ...], OutputComparer] = {}
        self._decisions: dict[tuple[object, ...], DecisionComparer] = {}
        self._placed: dict[tuple[object, ...], PlacedDecisions] = {}
        rules = () if stage.of_inputs else plan.decisions
        self._rules = {
            output: [r for r in rules if r.output == output] for output in {r.output for r in rules}
        }
        self.names: dict[str, tuple[str, ...]] = {}
        self._naming = threading.Lock()
        self.varying: set[str] = set()
        self.functions = _load_functions(plan)

    def tolerance(self, output: str, dtype: str) -> Tolerance | None:
        """The output's tolerance; None: the stage doesn't say how to judge it."""
        return self.stage.tolerance(output, is_float=is_float(dtype))

    def bind(
        self, output: str, ref: tuple[str, tuple[int, ...]], cand: tuple[str, tuple[int, ...]]
    ) -> None:
        """Make the comparers of an output ahead of the run, so that a plan's faults show early.

        Raises:
            PlanError: every rule that can't be applied to these dtypes and shapes.
        """
        tolerance = self.tolerance(output, ref[0])
        if tolerance is None or dtypes_disagree(tolerance, ref[0], cand[0]) or ref[1] != cand[1]:
            return
        problems: dict[Problem, None] = {}
        with gathering(problems):
            self.element_comparer(output, tolerance, ref[0], cand[0], ref[1])
        for rule in self._rules.get(output, ()):
            with gathering(problems):
                self.decision_comparer(rule, tolerance, ref[0], cand[0], ref[1])
        if problems:
            raise PlanError(list(problems), self.plan.source)

    def warm_up(self, stop: threading.Event) -> None:
        """Load or compile what compares clean samples of the outputs that are bound by now.

        Args:
            stop: ends it before the next output.
        """
        for comparer in self.comparers:
            if stop.is_set():
                return
            if comparer.takes_device:
                continue  # it was tried out when it was made
            if isinstance(comparer, ElementComparer) and comparer.width <= _WARM_ELEMENTS:
                shape = (1, *comparer.sample_shape)
                ref, cand = (np.ones(shape, dtype) for dtype in comparer.dtypes)
                comparer.compare(ref, cand, np.zeros(1, np.int64), is_lazy=True)

    @property
    def comparers(self) -> list[OutputComparer]:
        """Of the outputs that are bound by now."""
        return list(self._elements.values())

    def compare(self, samples: SampleRows, ref: Side, cand: Side, hint: KeepHint) -> StageResult:
        """Judge one block."""
        judged = Judged(self, samples, ref, cand)
        judged.align()
        names = self._output_names(ref, cand)
        if self._place is not None:
            judged.begin(names)
        for output in names:
            judged.judge_output(output)
        return collect(judged, hint)

    def _output_names(self, ref: Side, cand: Side) -> list[str]:
        decided = [output for output in self._rules if self.stage.judges(output)]
        names = dict.fromkeys([*self.stage.tolerances, *decided, *ref.outputs, *cand.outputs])
        return [n for n in names if n not in self.stage.ignore]

    def takes_device(self, output: str) -> bool:
        """Whether an output that was bound is compared where it lies, on a GPU."""
        made = [comparer for key, comparer in self._elements.items() if key[0] == output]
        return bool(made) and all(comparer.takes_device for comparer in made)

    def rules_of(self, output: str) -> list[DecisionRule]:
        """The decisions that derive from an output."""
        return self._rules.get(output, [])

    def element_comparer(
        self, output: str, tolerance: Tolerance, ref: str, cand: str, shape: tuple[int, ...]
    ) -> OutputComparer:
        """The comparer for an output of these dtypes and this sample shape, made once."""
        key = (output, ref, cand, shape)
        if key not in self._elements:
            if is_float(ref) and output in self.stage.unstated:
                path = f"stages.{self.stage.name}.outputs.{output}"
                problem = Problem(path, f"is {ref}; give atol and rtol (0 is a value)")
                raise PlanError([problem], self.plan.source)
            try:
                made = self._make(output, tolerance, (ref, cand), shape)
            except ValueError as e:
                path = f"stages.{self.stage.name}.outputs.{output}"
                raise PlanError([Problem(path, str(e))], self.plan.source) from None
            self._elements[key] = made
        return self._elements[key]

    def _make(
        self, output: str, tolerance: Tolerance, dtypes: tuple[str, str], shape: tuple[int, ...]
    ) -> OutputComparer:
        if self._place is None or not self._place.wants(self.stage.name, output):
            return make_comparer(tolerance, *dtypes, shape, self._stats)
        names = self.stage.name, output
        return make_placed(self._place, names, tolerance, dtypes, shape, self._stats)

    def decision_comparer(
        self, rule: DecisionRule, tolerance: Tolerance, ref: str, cand: str, shape: tuple[int, ...]
    ) -> DecisionComparer:
        """The comparer for a decision on an output of these dtypes and this shape, made once."""
        key = (rule.name, ref, cand, shape)
        if key not in self._decisions:
            try:
                made = DecisionComparer(
                    rule, tolerance, ref, cand, shape, self._stats, self.functions.get(rule.name)
                )
            except ValueError as e:
                path = f"decisions.{rule.name}"
                raise PlanError([Problem(path, str(e))], self.plan.source) from None
            self._decisions[key] = made
            if self._place is not None and self._place.wants(self.stage.name, rule.output):
                self._decide_there(self._place, rule, tolerance, (ref, cand), shape)
            with self._naming:
                self.names[rule.name] = max(self.names.get(rule.name, ()), made.names, key=len)
        return self._decisions[key]

    def _decide_there(
        self,
        place: Place,
        rule: DecisionRule,
        tolerance: Tolerance,
        dtypes: tuple[str, str],
        shape: Shape,
    ) -> None:
        stage, why, kind = self.stage.name, "", only_on_cpu(rule)
        if kind:
            why = f"a GPU decides bands, argmax and topk of scores as they are, not {kind}"
        elif not self.takes_device(rule.output):
            why = f"output {rule.output!r} isn't compared on the GPU"
        else:
            from paritygate.comparison.placed_decisions import PlacedDecisions

            given = rule, tolerance, dtypes, shape, self._stats
            try:
                self._placed[(rule.name, *dtypes, shape)] = PlacedDecisions(place, stage, *given)
            except DeviceError as e:
                if place.wanted is None:
                    raise
                why = str(e)
        if why:
            place.note(f"stage {stage!r}, decision {rule.name!r}: decided on the CPU: {why}")

    def decided_here(self, rule: DecisionRule, samples: int) -> None:
        """Samples were decided on the CPU, which is told where a GPU compares."""
        if self._place is not None and self._place.wants(self.stage.name, rule.output):
            self._place.count_decided(self.stage.name, rule.name, "cpu", samples)

    def bound_rules(
        self, output: str, tolerance: Tolerance, dtypes: tuple[str, str], shape: Shape
    ) -> list[BoundRule]:
        """The decisions that derive from an output of these dtypes and this shape."""
        return [
            (
                rule,
                self.decision_comparer(rule, tolerance, *dtypes, shape),
                self._placed.get((rule.name, *dtypes, shape)),
            )
            for rule in self._rules.get(output, ())
        ]


def _load_functions(plan: Plan) -> dict[str, Function]:
    """The functions of the plan's decisions, by decision.

    Raises:
        PlanError: with every one that isn't there.
    """
    functions, problems = {}, []
    for rule in plan.decisions:
        if rule.python is None:
            continue
        try:
            functions[rule.name] = load_function(rule, plan.folder)
        except ValueError as e:
            problems.append(Problem(f"decisions.{rule.name}.python", str(e)))
    if problems:
        raise PlanError(problems, plan.source)
    return functions
