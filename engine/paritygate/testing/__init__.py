"""The contract that every kind of runner keeps, as tests to inherit: for authors of runners."""

from paritygate.testing.batches import context_of, make_batch, sample_inputs, spec_of
from paritygate.testing.contract import RunnerContract

__all__ = ["RunnerContract", "context_of", "make_batch", "sample_inputs", "spec_of"]
