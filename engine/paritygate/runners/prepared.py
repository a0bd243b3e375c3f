"""The golden pack's own inputs as answers: what a preprocessing is compared with."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from paritygate.core.digest import canonical_json
from paritygate.core.errors import GoldenError, RunnerError
from paritygate.core.ragged import repeat_last
from paritygate.core.tensors import Batch, TensorSpec
from paritygate.golden.pack import GoldenPack
from paritygate.runners.base import Lease, Limits, Runner, RunnerSession, describe_batch

PREFIX = "in."


class PreparedRunner(Runner):
    """Answers each sample with its prepared inputs, under the names that the plan gives them."""

    constant_names = frozenset[str]()

    def __init__(self, name: str, golden: GoldenPack) -> None:
        super().__init__(
            name,
            "recorded",
            limits=Limits(None, True),
            inputs={},
            outputs={
                name: TensorSpec(name, spec.dtype, ("batch", *spec.shape))
                for name, spec in golden.inputs.items()
            },
        )
        self.golden = golden

    @property
    def identity(self) -> str:
        """Digest, hex, of the golden files."""
        if not self._identity:
            parts = [
                "prepared inputs",
                sorted(self.golden.file_digests()),
                list(self.outputs or ()),
            ]
            self._identity = hashlib.sha256(canonical_json(parts)).hexdigest()
        return self._identity

    @property
    def facts(self) -> Mapping[str, object]:
        """Digest, samples and columns of the pack."""
        if not self._facts:
            self._facts = {
                "path": "golden",
                "digest": self.golden.digest(),
                "samples": self.golden.samples,
                "outputs_prefix": PREFIX,
                "outputs": [str(spec) for spec in (self.outputs or {}).values()],
            }
        return self._facts

    def session(self) -> RunnerSession:
        """A session for the calling thread."""
        return _PreparedSession(self)


class _PreparedSession(RunnerSession):
    def __init__(self, runner: PreparedRunner) -> None:
        super().__init__(runner)
        self._golden = runner.golden

    def _run_impl(self, batch: Batch) -> Lease:
        try:
            rows = golden_rows(self._golden, batch)
            inputs = {name: self._golden.take_input(name, rows) for name in self._golden.inputs}
        except GoldenError as e:
            raise RunnerError(f"{describe_batch(self.runner.name, batch)}: {e}") from e
        return Lease({name: repeat_last(array, batch.size) for name, array in inputs.items()})


def golden_rows(pack: GoldenPack, batch: Batch) -> npt.NDArray[np.int64]:
    """`(valid,)` positions of a batch's samples in the golden pack.

    Batches are in pack order, so that comparing both ends tells whether none is left out between.
    """
    start, stop = batch.start, batch.start + batch.valid
    if stop <= pack.samples:
        first, last = pack.ids(start, start + 1)[0], pack.ids(stop - 1, stop)[0]
        if first == batch.ids[0] and last == batch.ids[batch.valid - 1]:
            return np.arange(start, stop, dtype=np.int64)
    return pack.index().rows(batch.ids[: batch.valid])
