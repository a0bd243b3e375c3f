"""A block on its way: what it is read into, and what is known once it has been compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
from msgspec import Struct, field

from paritygate.comparison.rows import Ids, KeepHint, SampleRows, Side, StageResult
from paritygate.comparison.stage import StageComparer
from paritygate.core.plan import Plan
from paritygate.core.tensors import Array, Block
from paritygate.golden.evidence import Mask
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.expect import hold_to_expected, must_reject
from paritygate.pipeline.impute import Imputation, Imputed, impute_inputs
from paritygate.pipeline.input_contract import InputContract
from paritygate.pipeline.reject import Rejected, find_rejected, hits_of
from paritygate.pipeline.shape_contract import ShapeContract, no_shape_contract
from paritygate.runners.base import Runner
from paritygate.runners.recorded import RecordedRunner
from paritygate.tally.coverage import CoverageTally
from paritygate.tally.stage import Hits, Tally

Witness = Callable[[SampleRows, Mapping[str, Side], Mapping[str, StageResult]], None]


class Prepared(Struct, frozen=True, dict=True):
    """Everything that a span needs, the same for every thread.

    Attributes:
        runners: the distinct runners of the stages that run, by name.
        stages: the stages that run.
        samples: samples of the pack that were asked for.
        block_samples: samples in the largest block.
        contracts: input contracts that are checked per sample.
        shapes: what the shapes of a sample's inputs must satisfy.
        watched: inputs whose values are looked at for coverage, with their channel axis.
        expect: column that says which samples must be rejected; None: there is none.
        imputations: what NaN of inputs are replaced by.
        synthetic: which samples of the pack are no acceptance evidence; None: none is.
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
    expect: str | None = None
    imputations: Sequence[Imputation] = ()
    synthetic: Mask | None = None
    label_columns: Sequence[str] = ()
    only: frozenset[int] | None = None
    witness: Witness | None = None

    @cached_property
    def reads_runs(self) -> bool:
        """Whether nothing but recorded outputs is read, in pack order, to compare a block."""
        is_plain = self.only is None and self.expect is None and not self.imputations
        return (
            is_plain
            and not self.shapes.dims
            and all(contract.asks_nothing for contract in self.contracts)
            and all(isinstance(r, RecordedRunner) and r.answers_runs for r in self.runners.values())
        )

    def recorded_packs(self) -> list[GoldenPack]:
        """The golden pack and all recordings."""
        runners = self.runners.values()
        return [self.pack, *(r.recording for r in runners if isinstance(r, RecordedRunner))]

    def unused_inputs(self) -> list[str]:
        """Inputs of the pack that no runner takes; a runner that doesn't say takes all."""
        needed = needed_inputs(self)
        return [name for name in self.pack.inputs if name not in needed] if self.runners else []


class BlockInput(Struct, frozen=True):
    """A block that has been read: its samples, and the inputs of those that may run.

    Attributes:
        shapes: of one sample, of the inputs whose dims have a name.
        imputed: what was replaced in those that may run, by input.
    """

    block: Block
    samples: SampleRows
    inputs: Mapping[str, Array]
    rejected: Sequence[Rejected]
    read_s: float
    shapes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    imputed: Mapping[str, Imputed] = field(default_factory=dict)


class BlockResult(Struct, frozen=True):
    """One block, run and compared in every stage. Times in seconds, by runner name."""

    block: Block
    stages: Mapping[str, StageResult]
    rejected: Sequence[Rejected]
    read_s: float
    run_s: Mapping[str, float]
    compare_s: float
    coverage: CoverageTally = field(default_factory=CoverageTally)
    imputed: Mapping[str, Imputed] = field(default_factory=dict)

    def tally(self) -> Tally:
        """The block's statistics."""
        stages = {name: result.tally for name, result in self.stages.items()}
        return Tally(1, self.block.samples, stages, self.coverage)


class Hints(Struct):
    """Thresholds of the bounded sets so far; written by one thread, read by all."""

    by_stage: dict[str, KeepHint] = field(default_factory=dict)


def read_block(prepared: Prepared, block: Block) -> BlockInput:
    """Read one block: ids, labels, slices and inputs, without those that break the contract."""
    if prepared.reads_runs and block.offsets is None:
        return _read_run(prepared, block)
    started = time.perf_counter()
    pack, ordinals = prepared.pack, block.ordinals()
    names = dict.fromkeys([*needed_inputs(prepared), *prepared.watched])
    is_gapless = block.offsets is None
    inputs = {
        name: pack.input(name, block.start, block.stop)
        if is_gapless
        else pack.take_input(name, ordinals)
        for name in names
    }
    ids = pack.ids(block.start, block.stop) if is_gapless else pack.take_ids(ordinals)
    labels = {name: _labels(pack, block, name) for name in prepared.label_columns}
    slices = {name: _slices(pack, block, name) for name in prepared.plan.slices}
    inputs, missing = impute_inputs(prepared.imputations, pack, ordinals, inputs)
    rejected = find_rejected(pack, prepared.contracts, prepared.shapes, ordinals, ids, inputs)
    if prepared.expect is not None:
        must = must_reject(pack, prepared.expect, block.start, block.stop, block.offsets)
        rejected = hold_to_expected(rejected, must, ordinals, ids)
    if rejected:
        keep = ~np.isin(ordinals, [r.ordinal for r in rejected])
        inputs = {name: array[keep] for name, array in inputs.items()}
        missing = {name: counts[keep] for name, counts in missing.items()}
        ids, ordinals = ids[keep], ordinals[keep]
        labels = {name: values[keep] for name, values in labels.items()}
        slices = {name: (values, codes[keep]) for name, (values, codes) in slices.items()}
    inputs = {name: _read_only(array) for name, array in inputs.items()}
    for array in inputs.values():
        _touch(array)
    samples = SampleRows(
        place_of(prepared, block),
        ordinals,
        ids,
        labels,
        slices,
        hits_of(rejected, "rejected"),
        hits_of(rejected, "as_expected").samples,
        hits_of(rejected, "not_rejected"),
    )
    shapes = _shapes(prepared, block.start)
    imputed = {name: Imputed.of(counts) for name, counts in missing.items()}
    read_s = time.perf_counter() - started
    return BlockInput(block, samples, inputs, rejected, read_s, shapes, imputed)


def _read_run(prepared: Prepared, block: Block) -> BlockInput:
    """A block of which the ids are read once a sample fails."""
    started = time.perf_counter()
    pack, rows = prepared.pack, range(block.start, block.stop)
    inputs = {name: pack.input(name, rows.start, rows.stop) for name in prepared.watched}
    labels = {name: _labels(pack, block, name) for name in prepared.label_columns}
    slices = {name: _slices(pack, block, name) for name in prepared.plan.slices}
    samples = SampleRows(place_of(prepared, block), rows, pack, labels, slices, Hits())
    return BlockInput(block, samples, inputs, (), time.perf_counter() - started)


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


def _shapes(prepared: Prepared, at: int) -> dict[str, list[int]]:
    """Shapes of one sample, of the inputs whose dims have a name."""
    pack, dims = prepared.pack, prepared.shapes.dims
    return {name: pack.input_shapes(name, at, at + 1)[0].tolist() for name in dims}


def _touch(array: Array) -> None:
    """Read a byte of every KiB, so that mapped pages are there before a runner waits for them."""
    if array.flags.c_contiguous and array.dtype != object:
        np.bitwise_or.reduce(array.reshape(-1).view(np.uint8)[::1024])


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view
