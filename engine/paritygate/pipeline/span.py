"""Run blocks: read, run every distinct runner once, compare every stage.

`run_span` is the one function that threads, worker processes, a resumed run and a cluster call.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import numpy.typing as npt

from paritygate.comparison.rows import Ids, KeepHint, SampleRows, Side, StageResult
from paritygate.comparison.stage import StageComparer
from paritygate.core.errors import RunnerError
from paritygate.core.plan import Plan
from paritygate.core.ragged import take_rows
from paritygate.core.tensors import Array, Block
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.batches import Cut, ask
from paritygate.pipeline.contract import InputContract, Violation
from paritygate.pipeline.coverage import cover_block
from paritygate.pipeline.gather import Gather
from paritygate.pipeline.shape_contract import ShapeContract, no_shape_contract
from paritygate.pipeline.turns import Turns
from paritygate.runners.base import Runner, RunnerSession
from paritygate.tally.coverage import CoverageTally
from paritygate.tally.stage import FIRST, Hits, Tally

Mask = npt.NDArray[np.bool_]
Witness = Callable[[SampleRows, Mapping[str, Side], Mapping[str, StageResult]], None]


@dataclass(frozen=True)
class Prepared:
    """Everything that a span needs, the same for every thread.

    Attributes:
        runners: the distinct runners of the stages that run, by name.
        stages: the stages that run.
        samples: samples of the pack that were asked for.
        block_samples: samples in the largest block.
        contracts: input contracts that are checked per sample.
        shapes: what the shapes of a sample's inputs must satisfy.
        watched: inputs whose values are looked at for coverage, with their channel axis.
        label_columns: label columns that decisions ask for.
        only: rows that are judged; the others of their blocks run beside them, so that the batches
            are as ever. None: all.
        witness: given each block's judged samples, the answers by runner and the results by stage;
            called by the thread that ran them, and the answers last as long as the call.
    """

    plan: Plan
    pack: GoldenPack
    runners: Mapping[str, Runner]
    stages: Sequence[StageComparer]
    samples: int
    block_samples: int
    contracts: Sequence[InputContract] = ()
    shapes: ShapeContract = field(default_factory=no_shape_contract)
    watched: Mapping[str, int | None] = field(default_factory=dict)
    label_columns: Sequence[str] = ()
    only: frozenset[int] | None = None
    witness: Witness | None = None

    def unused_inputs(self) -> list[str]:
        """Inputs of the pack that no runner takes; a runner that doesn't say takes all."""
        needed = needed_inputs(self)
        return [name for name in self.pack.inputs if name not in needed] if self.runners else []


@dataclass(frozen=True)
class Rejected:
    """A sample that was not run, and why."""

    ordinal: int
    sample_id: int | str
    violation: Violation


@dataclass(frozen=True)
class BlockInput:
    """A block that has been read: its samples, and the inputs of those that may run.

    Attributes:
        shapes: of one sample, of the inputs whose dims have a name.
    """

    block: Block
    samples: SampleRows
    inputs: Mapping[str, Array]
    rejected: Sequence[Rejected]
    read_s: float
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class BlockResult:
    """One block, run and compared in every stage. Times in seconds, by runner name."""

    block: Block
    stages: Mapping[str, StageResult]
    rejected: Sequence[Rejected]
    read_s: float
    run_s: Mapping[str, float]
    compare_s: float
    coverage: CoverageTally = field(default_factory=CoverageTally)

    def tally(self) -> Tally:
        """The block's statistics."""
        stages = {name: result.tally for name, result in self.stages.items()}
        return Tally(1, self.block.samples, stages, self.coverage)


@dataclass
class Hints:
    """Thresholds of the bounded sets so far; written by one thread, read by all."""

    by_stage: dict[str, KeepHint] = field(default_factory=dict)


def run_span(prepared: Prepared, blocks: Sequence[Block], limit: int = 0) -> Tally:
    """Run blocks one after another in this thread.

    Args:
        prepared: plan, pack, runners and stages.
        blocks: any blocks of the pack, in any order.
        limit: failing samples of a block to keep whole; their rows are not returned here.

    Returns:
        The merged statistics; the same bits for any split of the blocks.
    """
    hints = Hints({s.stage.name: KeepHint(limit) for s in prepared.stages})
    tally = Tally()
    with Lane(prepared, Shared()) as lane:
        for block in blocks:
            tally = tally.merge(lane.run_block(read_block(prepared, block), hints).tally())
    return tally


def read_block(prepared: Prepared, block: Block) -> BlockInput:
    """Read one block: ids, labels, slices and inputs, without those that break the contract."""
    started = time.perf_counter()
    pack, ordinals = prepared.pack, block.ordinals()
    names = dict.fromkeys([*needed_inputs(prepared), *prepared.watched])
    inputs = {name: pack.take_input(name, ordinals) for name in names}
    is_gapless = block.offsets is None
    ids = pack.ids(block.start, block.stop) if is_gapless else pack.take_ids(ordinals)
    labels = {name: _labels(pack, block, name) for name in prepared.label_columns}
    slices = {name: _slices(pack, block, name) for name in prepared.plan.slices}
    rejected = _reject(prepared, ordinals, ids)
    if rejected:
        keep = ~np.isin(ordinals, [r.ordinal for r in rejected])
        inputs = {name: array[keep] for name, array in inputs.items()}
        ids, ordinals = ids[keep], ordinals[keep]
        labels = {name: values[keep] for name, values in labels.items()}
        slices = {name: (values, codes[keep]) for name, (values, codes) in slices.items()}
    inputs = {name: _read_only(array) for name, array in inputs.items()}
    for array in inputs.values():
        _touch(array)
    first = tuple((r.ordinal, r.sample_id) for r in rejected[:FIRST])
    hits = Hits(len(rejected), first)
    samples = SampleRows(place_of(prepared, block), ordinals, ids, labels, slices, hits)
    shapes = _shapes(prepared, block.start)
    return BlockInput(block, samples, inputs, rejected, time.perf_counter() - started, shapes)


def place_of(prepared: Prepared, block: Block) -> int:
    """Place of a block's first sample, as batches are counted; no two blocks have the same."""
    return block.place if block.place >= 0 else block.number * prepared.block_samples


def _labels(pack: GoldenPack, block: Block, name: str) -> Ids:
    values = pack.labels(block.start, block.stop, name)
    return values if block.offsets is None else values[block.offsets]


def _slices(pack: GoldenPack, block: Block, name: str) -> tuple[list[str], npt.NDArray[np.int32]]:
    coded = pack.slice_values(name, block.start, block.stop)
    codes = coded.codes if block.offsets is None else coded.codes[block.offsets]
    return list(coded.values), codes


def needed_inputs(prepared: Prepared) -> list[str]:
    """Pack inputs that some runner takes; one that doesn't say is given all."""
    needed: dict[str, None] = {}
    for runner in prepared.runners.values():
        taken = prepared.pack.inputs if runner.inputs is None else runner.inputs
        needed.update(dict.fromkeys(name for name in taken if name in prepared.pack.inputs))
    return list(needed)


def _reject(prepared: Prepared, ordinals: npt.NDArray[np.int64], ids: Ids) -> list[Rejected]:
    """Samples whose inputs break a contract, in pack order, each with its first violation."""
    found: dict[int, Rejected] = {}
    misshapen = _misshapen(prepared, int(ordinals[0]))
    if misshapen is not None:  # the samples of a block have one shape
        pairs = zip(ordinals.tolist(), ids.tolist(), strict=True)
        return [Rejected(ordinal, sample_id, misshapen) for ordinal, sample_id in pairs]
    for contract in prepared.contracts:
        array = prepared.pack.take_input(contract.name, ordinals)
        for i in np.flatnonzero(contract.violations(array)).tolist():
            violation = contract.describe(array[i])
            if violation is not None and i not in found:
                found[i] = Rejected(int(ordinals[i]), ids[i : i + 1].tolist()[0], violation)
    return [found[i] for i in sorted(found)]


def _misshapen(prepared: Prepared, at: int) -> Violation | None:
    return prepared.shapes.violation(_shapes(prepared, at))


def _shapes(prepared: Prepared, at: int) -> dict[str, list[int]]:
    """Shapes of one sample, of the inputs whose dims have a name."""
    pack, dims = prepared.pack, prepared.shapes.dims
    return {name: pack.input_shapes(name, at, at + 1)[0].tolist() for name in dims}


class Shared:
    """Sessions of runners that allow one session only, with a lock each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[RunnerSession, threading.Lock]] = {}

    def session(self, runner: Runner) -> tuple[RunnerSession, threading.Lock]:
        """The one session of a runner, made at first use."""
        with self._lock:
            if runner.name not in self._sessions:
                self._sessions[runner.name] = (runner.session(), threading.Lock())
            return self._sessions[runner.name]

    def close(self) -> None:
        """Close all sessions."""
        for session, _ in self._sessions.values():
            session.close()
        self._sessions = {}


class Lane:
    """What one thread owns: sessions and block buffers."""

    def __init__(
        self,
        prepared: Prepared,
        shared: Shared,
        stop: threading.Event | None = None,
        turns: Turns | None = None,
    ) -> None:
        self._prepared = prepared
        self._turns = turns
        self._shared = shared
        self._stop = stop or threading.Event()
        self._own: dict[str, RunnerSession] = {}
        self._buffers: dict[tuple[str, str], Array] = {}
        dim = prepared.plan.table.dims.batch
        self._cuts = {name: Cut.of(runner, dim) for name, runner in prepared.runners.items()}

    def __enter__(self) -> Lane:
        """Use it in a with statement, so that its sessions are closed."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close this thread's sessions."""
        for session in self._own.values():
            session.close()
        self._own = {}

    def run_block(self, read: BlockInput, hints: Hints) -> BlockResult:
        """Run every runner once over a block and compare every stage."""
        with ExitStack() as leases:
            sides: dict[str, Side] = {}
            seconds = {}
            for name, runner in self._prepared.runners.items():
                started = time.perf_counter()
                sides[name] = self._run(runner, read, leases)
                seconds[name] = time.perf_counter() - started
            started = time.perf_counter()
            samples = read.samples
            if self._prepared.only is not None:
                samples, sides = _narrow(samples, sides, self._prepared.only)
            stages = {
                s.stage.name: s.compare(
                    samples,
                    sides[s.stage.reference],
                    sides[s.stage.candidate],
                    hints.by_stage[s.stage.name],
                )
                for s in self._prepared.stages
            }
            if self._prepared.witness is not None:
                self._prepared.witness(samples, sides, stages)
            covered = self._cover(read)
            compare_s = time.perf_counter() - started
        return BlockResult(
            read.block, stages, read.rejected, read.read_s, seconds, compare_s, covered
        )

    def _cover(self, read: BlockInput) -> CoverageTally:
        if self._prepared.only is not None:
            return CoverageTally()
        return cover_block(self._prepared, read, self._cuts)

    def _run(self, runner: Runner, read: BlockInput, leases: ExitStack) -> Side:
        if not read.samples.count:
            nobody: Mask = np.zeros(0, np.bool_)
            return Side({}, nobody, nobody)
        if self._turns is not None:
            self._turns.wait(runner, read.block)
        if runner.limits.thread_safe:
            if runner.name not in self._own:
                self._own[runner.name] = runner.session()
            return self._run_batches(runner, self._own[runner.name], read, leases)
        session, lock = self._shared.session(runner)
        with lock:
            return self._run_batches(runner, session, read, leases)

    def _run_batches(
        self, runner: Runner, session: RunnerSession, read: BlockInput, leases: ExitStack
    ) -> Side:
        cut = self._cuts[runner.name]
        is_whole = cut.size is None or cut.size >= read.samples.count
        gather = Gather(read.samples, partial(self.buffer, runner.name))
        at = 0
        for batch in cut.batches(read.block, read.samples, read.inputs):
            if self._stop.is_set():
                raise RunnerError("stopped")
            lease, failures = ask(session, batch)
            if lease is not None:
                if gather.take(at, batch.valid, lease, is_whole=is_whole):
                    leases.callback(lease.release)
                else:
                    lease.release()
            for rows, failure in failures:
                gather.fail([at + row for row in rows], failure.text, failure.rule)
            at += batch.valid
        return gather.side(cut.size or 0)

    def buffer(self, runner: str, output: str, rows: int, like: Array) -> Array:
        """This thread's buffer of at least `rows` rows for an output; anew for another shape."""
        key = (runner, output)
        held = self._buffers.get(key)
        is_alike = held is not None and (held.dtype, held.shape[1:]) == (like.dtype, like.shape[1:])
        if held is None or not is_alike or len(held) < rows:
            held = self._buffers[key] = np.empty((rows, *like.shape[1:]), like.dtype)
        return held


def _narrow(
    samples: SampleRows, sides: Mapping[str, Side], only: frozenset[int]
) -> tuple[SampleRows, dict[str, Side]]:
    """The samples of these rows; what can't be told of them is which batch they were in."""
    at = np.flatnonzero([row in only for row in samples.ordinals.tolist()])
    chosen = replace(
        samples,
        ordinals=samples.ordinals[at],
        ids=samples.ids[at],
        labels={name: values[at] for name, values in samples.labels.items()},
        slices={name: (values, codes[at]) for name, (values, codes) in samples.slices.items()},
        rejected=Hits(0, ()),
    )
    return chosen, {
        name: replace(
            side,
            outputs={output: take_rows(t, at) for output, t in side.outputs.items()},
            answered=side.answered[at],
            missing=side.missing[at],
            failures=[
                replace(failure, rows=np.flatnonzero(np.isin(at, failure.rows)))
                for failure in side.failures
            ],
            batch_size=0,
        )
        for name, side in sides.items()
    }


def _touch(array: Array) -> None:
    """Read a byte of every KiB, so that mapped pages are there before a runner waits for them."""
    if array.flags.c_contiguous and array.dtype != object:
        np.bitwise_or.reduce(array.reshape(-1).view(np.uint8)[::1024])


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
