"""Every kind of runner keeps the contract in a process of its own too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from msgspec.structs import replace
from tests.runners import test_contract
from tests.runners.contract import RunnerContract, golden_inputs, make_batch

from paritygate.runners.isolate.runner import IsolatedRunner
from paritygate.runners.registry import prepare


class Isolated(RunnerContract):
    """The same table with `isolate`, and what must not change by it."""

    def table(self, folder: Path) -> object:
        table = super().table(folder)
        plain = dict(table) if isinstance(table, Mapping) else {"model": table}
        return {**plain, "isolate": {"batch_timeout_s": 60, "load_timeout_s": 60}}

    def test_it_is_the_same_runner(self) -> None:
        with self.place() as (spec, context):
            runner = prepare(spec, context)
            plain = prepare(replace(spec, isolation=None), context)
            with runner, plain:
                assert isinstance(runner, IsolatedRunner)
                assert (runner.identity, runner.source) == (plain.identity, plain.source)
                assert (runner.limits, runner.inputs) == (plain.limits, plain.inputs)
                assert (runner.outputs, runner.layout) == (plain.outputs, plain.layout)
                assert runner.constant_names == plain.constant_names
                assert runner.watched == plain.watched
                facts = dict(runner.facts)
                assert facts.pop("isolation")
                assert facts == dict(plain.facts)

    def test_it_answers_the_same_bits(self) -> None:
        batch = make_batch(golden_inputs()[:8])
        with self.place() as (spec, context):
            runner = prepare(spec, context)
            plain = prepare(replace(spec, isolation=None), context)
            with (
                runner,
                plain,
                runner.session().run(batch) as ours,
                plain.session().run(batch) as theirs,
            ):
                assert list(ours.outputs) == list(theirs.outputs)
                for name, array in theirs.outputs.items():
                    np.testing.assert_array_equal(ours.outputs[name], array, strict=True)
                    assert ours.outputs[name].tobytes() == array.tobytes()


class TestOnnxRuntime(Isolated, test_contract.TestOnnxRuntime):
    pass


class TestOnnxRuntimeManyOutputs(Isolated, test_contract.TestOnnxRuntimeManyOutputs):
    pass


class TestPython(Isolated, test_contract.TestPython):
    pass


class TestNullZeros(Isolated, test_contract.TestNullZeros):
    pass


class TestNullEcho(Isolated, test_contract.TestNullEcho):
    pass
