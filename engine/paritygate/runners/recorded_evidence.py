"""Which samples are no acceptance evidence, as the golden pack or a recording says."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from paritygate.golden.evidence import Mask, synthetic_rows
from paritygate.golden.pack import GoldenPack
from paritygate.runners.base import Runner
from paritygate.runners.recorded import RecordedRunner
from paritygate.runners.viewed import ViewedRunner

_STEP = 65_536


def synthetic_samples(golden: GoldenPack, runners: Iterable[Runner]) -> Mask | None:
    """`(samples,)` which golden samples are synthetic, whoever says so; None: none is.

    Raises:
        GoldenError: a file can't be read, or says what nobody knows.
    """
    mask = synthetic_rows(golden)
    for runner in runners:
        inner = runner.inner if isinstance(runner, ViewedRunner) else runner
        if isinstance(inner, RecordedRunner) and not inner.is_golden:
            theirs = _joined(golden, inner.recording)
            if theirs is not None:
                mask = theirs if mask is None else mask | theirs
    return mask if mask is None or mask.any() else None


def _joined(golden: GoldenPack, recording: GoldenPack) -> Mask | None:
    """What a recording says, of the golden samples of these ids."""
    said = synthetic_rows(recording)
    if said is None:
        return None
    mask: Mask = np.zeros(golden.samples, np.bool_)
    index = recording.index()
    for start in range(0, golden.samples, _STEP):
        stop = min(start + _STEP, golden.samples)
        rows = index.rows(golden.ids(start, stop))
        mask[start:stop] = (rows >= 0) & said[rows]
    return mask
