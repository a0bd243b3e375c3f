"""Outputs that the host has: whether sending them to a GPU is faster than comparing them here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import Struct
from msgspec.structs import asdict

from paritygate.comparison.judged import dtypes_disagree
from paritygate.comparison.place import On, Place
from paritygate.core.dtypes import is_string, numpy_dtype
from paritygate.core.plan import Stage
from paritygate.core.policy import Tolerance
from paritygate.core.tensors import Stats, TensorSpec, is_float
from paritygate.runners.base import Runner

WORTH_BYTES = 1 << 30  # of both sides; less is compared before anything is measured
WORTH_S = 4.0  # of comparing on the CPU; less is done before a GPU is ready
BETTER = 1.2  # what is nearer is noise
BUDGET_S = 0.2  # after which no other output is tried


class HostOutput(Struct, frozen=True):
    """An output that at least one side has on the host.

    Attributes:
        stage: name of the stage.
        output: name of the output.
        tolerance: of the output.
        dtypes: names of the reference's and the candidate's.
        shape: of one sample.
        size: bytes of both sides, of all samples.
    """

    stage: str
    output: str
    tolerance: Tolerance
    dtypes: tuple[str, str]
    shape: tuple[int, ...]
    size: int


class Measured(Struct, frozen=True):
    """How fast an output is compared, in bytes of both sides a second.

    Attributes:
        stage: name of the stage.
        output: name of the output.
        threads: that compared at once.
        cpu_bytes_per_s: on the CPU.
        sent_bytes_per_s: that reach the GPU; None: it wasn't tried.
        cuda_bytes_per_s: sent and compared there; None: the same, or there was no room.
        on: where it is to be compared.
    """

    stage: str
    output: str
    threads: int
    cpu_bytes_per_s: int
    sent_bytes_per_s: int | None
    cuda_bytes_per_s: int | None
    on: On

    def describe(self) -> dict[str, Any]:
        """What a summary says of it."""
        return asdict(self)


def host_outputs(
    stages: Sequence[Stage], runners: Mapping[str, Runner], samples: int
) -> Iterator[HostOutput]:
    """Outputs of declared dtypes and shapes that don't stay on a GPU on both sides.

    Args:
        stages: those that run.
        runners: theirs, by name.
        samples: that are compared.
    """
    for stage in stages:
        ref, cand = runners[stage.reference], runners[stage.candidate]
        stays = ref.can_stay & cand.can_stay
        for output, spec in (ref.outputs or {}).items():
            other = (cand.outputs or {}).get(output)
            if other is None or output in stays or not stage.judges(output):
                continue
            sides = fixed(spec), fixed(other)
            tolerance = stage.tolerance(output, is_float=is_float(spec.dtype))
            if sides[0] is None or sides[1] is None or sides[0][1] != sides[1][1]:
                continue
            dtypes, shape = (sides[0][0], sides[1][0]), sides[0][1]
            elements = samples * math.prod(shape)
            if tolerance is None or dtypes_disagree(tolerance, *dtypes):
                continue
            if is_string(dtypes[0]) or not elements:
                continue
            size = elements * sum(numpy_dtype(name).itemsize for name in dtypes)
            yield HostOutput(stage.name, output, tolerance, dtypes, shape, size)


def fixed(spec: TensorSpec) -> tuple[str, tuple[int, ...]] | None:
    """Dtype and shape of a sample; None where not all dims are numbers."""
    dims = spec.shape[1:]
    shape = tuple(d for d in dims if isinstance(d, int))
    return (spec.dtype, shape) if len(shape) == len(dims) and spec.shape else None


def measure_outputs(
    place: Place, outputs: Sequence[HostOutput], stats: Stats, threads: int, *, is_asked: bool
) -> list[Measured]:
    """How fast large outputs are compared here and there; the largest first, as time allows.

    Args:
        place: the GPU.
        outputs: of the host.
        stats: "gate" or "full".
        threads: that compare at once.
        is_asked: they are compared on the GPU however fast that is.
    """
    found: list[Measured] = []
    known: dict[tuple[object, ...], _Speeds] = {}
    spent = 0.0
    for one in sorted(outputs, key=lambda one: -one.size):
        key = one.tolerance, one.dtypes, one.shape, one.size if not is_asked else 0
        if key not in known:
            if one.size < WORTH_BYTES or spent > BUDGET_S:
                continue
            try:
                with place.for_trials() as tried:
                    known[key] = _speeds(tried, one, stats, threads, is_asked=is_asked)
            except Exception as e:  # what keeps it from being compared there is told where it is
                if not is_asked:
                    told = " ".join(str(e).split()) or type(e).__name__
                    place.note(
                        f"stage {one.stage!r}, output {one.output!r}: compared on the CPU, since "
                        f"it couldn't be tried on the GPU: {told}"
                    )
                continue
            spent += known[key].seconds
        cpu, sent, cuda, _ = known[key]
        is_better = cuda is not None and cuda > BETTER * cpu
        figures = round(cpu), _rounded(sent), _rounded(cuda)
        on: On = "cuda" if is_asked or is_better else "cpu"
        found.append(Measured(one.stage, one.output, threads, *figures, on))
    return found


def _rounded(speed: float | None) -> int | None:
    return None if speed is None else round(speed)


class _Speeds(NamedTuple):
    cpu: float
    sent: float | None
    cuda: float | None
    seconds: float


def _speeds(
    place: Place, one: HostOutput, stats: Stats, threads: int, *, is_asked: bool
) -> _Speeds:
    """What is known to be slower on the GPU isn't tried any further."""
    from paritygate.comparison.speeds import Trial

    trial = Trial(one.tolerance, one.dtypes, one.shape, stats, threads)
    cpu, sent, cuda = trial.on_cpu(), None, None
    if is_asked or one.size >= WORTH_S * cpu:
        sent = trial.sent(place)
        if is_asked or sent >= BETTER * cpu:
            cuda = trial.on_gpu(place)
    return _Speeds(cpu, sent, cuda, trial.seconds)
