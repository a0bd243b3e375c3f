"""`pack boundary`: samples on both sides of every edge, at the ends of ranges and dims, beyond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct, field

from paritygate.comparison.decide.function import load_function
from paritygate.core.errors import GoldenError, PlanError, Problem
from paritygate.core.plan import Plan
from paritygate.core.policy import DecisionRule
from paritygate.core.tensors import Array
from paritygate.golden.build import Built
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.boundary_eval import Decider, Reference, Sample, Seen, places_of
from paritygate.pipeline.boundary_pack import write_rows
from paritygate.pipeline.boundary_rows import Row, Space, dim_rows, extremes, reject_rows
from paritygate.pipeline.boundary_search import Found, Search
from paritygate.pipeline.contract import input_contracts
from paritygate.pipeline.input_contract import InputContract
from paritygate.pipeline.prepare import open_golden, prepare_plan
from paritygate.pipeline.shape_contract import ShapeContract

PROBES = 1_024
LOOKED_AT = 4_096
MOST_PLACES = 8
MOST_KEYS = 64
MOST_FILLERS = 4_096


class BoundaryOptions(Struct, frozen=True):
    """How to search.

    Attributes:
        budget: samples that the reference may be asked for each edge.
        per_side: samples to keep on each side of an edge, and on it.
        seed: of what is tried at random.
        with_golden: write the golden samples too, before the others.
    """

    budget: int = 4_096
    per_side: int = 1
    seed: int = 0
    with_golden: bool = False


USUAL = BoundaryOptions()


class Boundary(Struct, frozen=True):
    """A pack of boundary samples: the file, and a status and a sentence on each thing in it."""

    built: Built
    lines: tuple[tuple[str, str], ...]


class _Made(Struct):
    rows: list[Row] = field(default_factory=list)
    lines: list[tuple[str, str]] = field(default_factory=list)


def make_boundary(plan: Plan, path: Path, options: BoundaryOptions) -> Boundary:
    """Write the boundary samples of a plan as a pack.

    Raises:
        PlanError: a budget that isn't one; the plan contradicts pack or model.
        GoldenError: the golden pack can't be read, or no sample of it satisfies the contract.
        RunnerLoadError: a reference that doesn't load.
        FolderError: the file can't be written.
    """
    for name in ("budget", "per_side"):
        if getattr(options, name) < 1:
            problem = Problem(name, f"is {getattr(options, name)}; give at least 1")
            raise PlanError([problem], plan.source)
    with open_golden(plan) as pack:
        contracts = input_contracts(plan, pack.inputs)
        shapes = ShapeContract.of(plan)
        probes = _probes(plan, pack, contracts, shapes)
        space = Space(plan, pack.inputs, probes[0])
        made = _Made([*extremes(space)])
        pool = [*probes, *(row.sample for row in made.rows)]
        _search_all(plan, space, pool, options, made)
        made.rows += dim_rows(space)
        made.rows += _fillers(plan, probes, made, pack.samples if options.with_golden else 0)
        made.rows += reject_rows(space)
        rows = list(_held(made, contracts, shapes))
        built = write_rows(path, rows, plan, pack, with_golden=options.with_golden)
    counts = Counter({"golden": built.samples - len(rows)} if options.with_golden else {})
    counts += Counter(row.id.partition("-")[0] for row in rows)
    told = ", ".join(f"{n} {kind}" for kind, n in sorted(counts.items()))
    lines = [("ok", f"{built.samples} samples: {told}"), *made.lines]
    return Boundary(built, (*lines, *(("note", note) for note in space.notes)))


def _probes(
    plan: Plan,
    pack: GoldenPack,
    contracts: Sequence[InputContract],
    shapes: ShapeContract,
) -> list[Sample]:
    """Golden samples of the shape that most of them have, that satisfy the contract."""
    rows = np.unique(np.linspace(0, max(0, pack.samples - 1), LOOKED_AT).astype(np.int64))
    names = list(pack.inputs)
    if not pack.samples or not names:
        what = "no sample" if names else "no input"
        raise GoldenError(f"{', '.join(plan.golden)}: has {what} to begin with", "golden.empty")
    varying = [name for name in names if not pack.inputs[name].is_fixed]
    if varying:
        found: dict[tuple[Any, ...], list[int]] = {}
        for row in rows.tolist():
            shape = tuple(
                tuple(pack.input_shapes(name, row, row + 1)[0].tolist()) for name in varying
            )
            found.setdefault(shape, []).append(row)
        rows = np.array(max(found.values(), key=len), np.int64)
    rows = rows[np.unique(np.linspace(0, len(rows) - 1, PROBES).astype(np.int64))]
    arrays = {name: pack.take_input(name, rows) for name in names}
    samples: list[Sample] = [
        {name: np.array(a[at]) for name, a in arrays.items()} for at in range(len(rows))
    ]
    good = [sample for sample in samples if _is_good(sample, contracts, shapes)]
    if not good:
        raise GoldenError(
            f"{', '.join(plan.golden)}: none of the samples looked at satisfies the plan's "
            "contract, so nothing can be made of them; `paritygate pack check --plan` says why",
            "golden.value",
        )
    return good


def _is_good(sample: Sample, contracts: Sequence[InputContract], shapes: ShapeContract) -> bool:
    found = {name: list(sample[name].shape) for name in shapes.dims}
    return shapes.violation(found) is None and not any(
        contract.violations(sample[contract.name][None]).any() for contract in contracts
    )


def _held(made: _Made, contracts: Sequence[InputContract], shapes: ShapeContract) -> Iterator[Row]:
    """The rows that the contract takes as it should, each with an id of its own."""
    known: Counter[str] = Counter()
    for row in made.rows:
        if _is_good(row.sample, contracts, shapes) != (row.expect is None):
            what = "reject it" if row.expect is None else "let it pass"
            made.lines.append(("note", f"{row.id}: left out, since the contract would {what}"))
            continue
        known[row.id] += 1
        again = known[row.id]
        yield row if again == 1 else Row(f"{row.id}~{again}", row.purpose, row.sample, row.expect)


def _fillers(plan: Plan, probes: Sequence[Sample], made: _Made, before: int) -> Iterator[Row]:
    """Golden samples again: a whole batch of the largest size and one of the smallest."""
    dim = plan.table.dims.batch
    if dim is None:
        return
    smallest = min(dim.sizes) if dim.sizes else int(dim.min or 1)
    shape = {name: array.shape for name, array in probes[0].items()}
    have = before + sum({n: a.shape for n, a in row.sample.items()} == shape for row in made.rows)
    tail = smallest % dim.largest
    wanted = -(-(have - tail) // dim.largest) * dim.largest + tail
    wanted = max(wanted, dim.largest + tail)
    if wanted - have > MOST_FILLERS:
        text = f"batches: {wanted - have} samples would fill one of {dim.largest}; none was made"
        made.lines.append(("note", text))
        return
    for number in range(wanted - have):
        yield Row(
            f"batch-{number + 1}",
            f"fills batches of {dim.largest}, and one of {smallest}",
            probes[number % len(probes)],
        )


def _search_all(
    plan: Plan, space: Space, pool: Sequence[Sample], options: BoundaryOptions, made: _Made
) -> None:
    """Search every decision's edges, the reference of each loaded once."""
    by_reference: dict[str, list[DecisionRule]] = {}
    for rule in plan.decisions:
        references = [stage.reference for stage in plan.stages if stage.judges(rule.output)]
        live = [name for name in references if plan.runners[name].kind != "recorded"]
        if live:
            by_reference.setdefault(live[0], []).append(rule)
            continue
        text = f"its reference {references[0]!r} is a recording, which answers no new inputs"
        made.lines.append(("note", f"decision {rule.name}: {text}, so that no edge was searched"))
    for name, rules in by_reference.items():
        ready = prepare_plan(plan, alone=name)
        with ready.resources:
            for error in ready.load_failures.values():
                raise error
            session = ready.prepared.runners[name].session()
            try:
                for rule in rules:
                    reference = Reference(ready.prepared, session, rule.output)
                    _search(plan, space, pool, options, made, rule, reference)
            finally:
                session.close()


def _search(
    plan: Plan,
    space: Space,
    pool: Sequence[Sample],
    options: BoundaryOptions,
    made: _Made,
    rule: DecisionRule,
    reference: Reference,
) -> None:
    answers = reference.answer(pool)
    shape = next((a.shape for a in answers if a is not None), None)
    if shape is None:
        text = "the reference gives no answers of one shape to samples at hand"
        made.lines.append(("note", f"decision {rule.name}: {text}, so that no edge was searched"))
        return
    if rule.elementwise and rule.transform == "softmax":
        text = "softmax and elementwise aren't searched"
        made.lines.append(("note", f"decision {rule.name}: {text}"))
        return
    function = load_function(rule, plan.folder) if rule.python is not None else None
    count = places_of(rule, shape)
    places = np.unique(np.linspace(0, max(0, count - 1), MOST_PLACES).astype(int)).tolist()
    limits = {name: space.limits(name) for name in space.numeric()}
    rng = np.random.default_rng([options.seed, *rule.name.encode()])
    for edge in range(len(rule.bands.edges)) if rule.bands is not None else [None]:
        for target in _targets(rule, edge, places, pool, answers, made, function):
            search = Search(reference, target.decider, limits, options.budget, rng)
            found = search.run(target.first, target.other, target.key, options.per_side)
            _tell(rule, target, found, made)


class _Target(Struct, frozen=True):
    """Where to search: what it is called, the two sides' words, and where to start."""

    name: str
    words: Mapping[bool, str]
    decider: Decider
    key: Any
    first: Sample
    other: Sample


def _targets(
    rule: DecisionRule,
    edge: int | None,
    places: Sequence[int],
    pool: Sequence[Sample],
    answers: Sequence[Array | None],
    made: _Made,
    function: Any,
) -> Iterator[_Target]:
    seen: list[Seen] = []
    for place in places:
        decider = Decider(rule, edge, place, function)
        seen = decider.decide(answers)
        counts = Counter(one.key for one in seen if one.key is not None)
        if len(counts) < 2:
            continue
        if rule.bands is not None and edge is not None:
            name = f"{rule.name}-{rule.bands.edges[edge]!r}"
            words = {True: "below", False: "above"}
            yield _target(name, words, decider, 0, pool, seen)
            return
        keys = [key for key, _ in counts.most_common()]
        if len(keys) > MOST_KEYS:
            text = f"the {MOST_KEYS} most frequent of {len(keys)} decisions were searched"
            made.lines.append(("note", f"decision {rule.name}: {text}"))
        for key in keys[: 1 if len(keys) == 2 else MOST_KEYS]:
            name = f"{rule.name}-{decider.name(key)}"
            yield _target(name, {True: "in", False: "out"}, decider, key, pool, seen)
        return
    where = f"decision {rule.name}"
    if rule.bands is not None and edge is not None:
        where += f", edge {rule.bands.edges[edge]!r}"
    text = "all samples at hand lie on one side, so that there was nothing to search between"
    if not any(one.key is not None for one in seen):
        text = "nothing is decided of any sample at hand"
    made.lines.append(("note", f"{where}: {text}"))


def _target(
    name: str,
    words: Mapping[bool, str],
    decider: Decider,
    key: Any,
    pool: Sequence[Sample],
    seen: Sequence[Seen],
) -> _Target:
    def nearest(is_first: bool) -> Sample:
        some = [  # from a tie no way may lead to the side that it falls on
            (one.margin == 0.0, one.margin if one.margin == one.margin else 0.0, at)
            for at, one in enumerate(seen)
            if one.key is not None and (one.key == key) == is_first
        ]
        return pool[min(some)[2]]

    return _Target(name, words, decider, key, nearest(is_first=True), nearest(is_first=False))


def _tell(rule: DecisionRule, target: _Target, found: Found, made: _Made) -> None:
    """Keep what was found of an edge, and say how near it is."""
    told = []
    for is_first, word in target.words.items():
        for number, (distance, sample) in enumerate(found.sides[is_first], 1):
            away = f", {distance:.6g} away" if distance < float("inf") else ""
            purpose = f"decision {rule.name}: {word} of {target.name}{away}"
            made.rows.append(Row(f"edge-{target.name}-{word}-{number}", purpose, sample))
        if not found.sides[is_first]:
            told.append(f"nothing strictly {word}")
        elif found.sides[is_first][0][0] < float("inf"):
            told.append(f"{word} {found.sides[is_first][0][0]:.6g} away")
    for number, sample in enumerate(found.ties, 1):
        purpose = f"decision {rule.name}: a tie at {target.name}"
        made.rows.append(Row(f"edge-{target.name}-tie-{number}", purpose, sample))
    if found.ties:
        told.append(f"{len(found.ties)} exact tie{'s' if len(found.ties) > 1 else ''}")
    elif found.has_distances:
        told.append("no exact tie was found")
    if found.is_adjacent:
        told.append("both sides are one step of one element apart at the nearest")
    status = "ok" if all(found.sides.values()) else "note"
    text = f"edge {target.name}: {', '.join(told)} ({found.asked} samples tried)"
    made.lines.append((status, text))
