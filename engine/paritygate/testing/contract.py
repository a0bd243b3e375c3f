"""What every kind of runner must do, as tests that a class for each kind inherits.

The methods named `test_*` take nothing but `self`, so that pytest collects them of a subclass named
`Test...`, and `unittest` of one that also inherits `unittest.TestCase`. They raise `AssertionError`
by themselves, with or without `python -O`.
"""

from __future__ import annotations

import json
import pickle
import tempfile
import threading
import unittest
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from paritygate.core.dtypes import dtype_name
from paritygate.core.errors import RunnerError
from paritygate.core.ragged import Tensor, row_of
from paritygate.core.tensors import Array, Batch
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.runners.answers import differs_from_declared
from paritygate.runners.base import PrepareContext, Runner, RunnerSession, RunnerSpec
from paritygate.runners.plugin_checks import wrong_findings, wrong_parts
from paritygate.runners.registry import prepare
from paritygate.testing.batches import context_of, make_batch, sample_inputs, spec_of, write_golden

_PART = 8
_THREADS, _TURNS = 4, 30


class RunnerContract:
    """Inherit it, and give `table` and `expected`.

    Attributes:
        needs_input: whether a batch that lacks the first input is an error.
        atol, rtol: how far float outputs may be from `expected`; 0 is bit for bit.
    """

    needs_input = True
    atol = 0.0
    rtol = 0.0

    def table(self, folder: Path) -> object:
        """The runner's table as in a plan; files that it needs are made in `folder`."""
        raise NotImplementedError

    def other_table(self, folder: Path) -> object | None:
        """The table of a runner that is another thing: another model, other options; None: none."""
        del folder
        return None

    def expected(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """What the runner must answer: name -> `(n, *sample_shape)`, for any of the samples."""
        raise NotImplementedError

    def inputs(self) -> Mapping[str, Array]:
        """All samples: name -> `(n, *sample_shape)`, at least 40, no two of them the same."""
        return sample_inputs()

    def constants(self) -> Mapping[str, Array]:
        """Inputs that are the same for all samples."""
        return {}

    def recorded(self) -> Mapping[str, Array]:
        """Outputs that the golden pack brings along."""
        return {}

    def prepare(self, spec: RunnerSpec, context: PrepareContext) -> Runner:
        """Make the runner ready, as a run does."""
        return prepare(spec, context)

    @contextmanager
    def place(self) -> Iterator[tuple[RunnerSpec, PrepareContext]]:
        """The specification, and a context with a golden pack in a folder of its own."""
        with tempfile.TemporaryDirectory(prefix="paritygate-contract-") as name:
            folder = Path(name)
            write_golden(folder / "pack.arrow", self.inputs(), self.recorded())
            spec = spec_of(self.table(folder))
            with open_pack(["pack.arrow"], folder) as pack:
                pack.scan_ids()
                yield spec, self.context(folder, pack)

    def context(self, folder: Path, pack: GoldenPack) -> PrepareContext:
        """What the runner is prepared against."""
        return context_of(folder, pack, self.constants())

    @contextmanager
    def runner(self) -> Iterator[Runner]:
        """The runner, ready; closed in the end."""
        with self.place() as (spec, context), self.prepare(spec, context) as runner:
            yield runner

    def test_answers(self) -> None:
        """It answers the first batch as expected, and lacks no sample of it."""
        with self.runner() as runner, runner.session().run(self._batch(runner)) as lease:
            self._check(lease.outputs, 0, _PART)
            _require(lease.present is None or bool(lease.present.all()), "a sample is missing")

    def test_the_same_answer_every_time(self) -> None:
        """Two sessions give the same bits, time after time."""
        with self.runner() as runner:
            one, two = runner.session(), runner.session()
            found = []
            for session in (one, one, two, one):
                with session.run(self._batch(runner)) as lease:
                    found.append({name: _bits(t) for name, t in lease.outputs.items()})
            _require(
                all(bits == found[0] for bits in found), "the same batch gave two different answers"
            )

    def test_a_lease_stays_until_it_is_released(self) -> None:
        """Outputs stay as they are while further batches run; releasing twice is once."""
        with self.runner() as runner:
            session = runner.session()
            starts = range(0, self._samples() - _PART + 1, _PART)
            leases = [
                (start, session.run(self._batch(runner, start, number=at)))
                for at, start in enumerate(starts)
            ]
            for start, lease in leases:
                self._check(lease.outputs, start, start + _PART)
            for _, lease in leases:
                lease.release()
                lease.release()
            again = session.run(self._batch(runner, 8))
            other = session.run(self._batch(runner, 16))
            self._check(again.outputs, 8, 16)
            self._check(other.outputs, 16, 24)

    def test_any_batch_size_in_any_order(self) -> None:
        """Batches grow and shrink; a runner of fixed sizes is given those, padded."""
        with self.runner() as runner:
            session = runner.session()
            for valid in (8, 1, 8, 40, 3, 1, 8):
                batch = self._batch(runner, 0, valid)
                with session.run(batch) as lease:
                    self._check(lease.outputs, 0, batch.valid)

    def test_sessions_at_the_same_time(self) -> None:
        """Sessions of several threads don't disturb each other, if it says that they may."""
        with self.runner() as runner:
            failures: list[BaseException] = []
            turn = threading.Lock()

            def work(offset: int) -> None:
                try:
                    session = runner.session()
                    for step in range(_TURNS):
                        start = (offset * 7 + step) % 32
                        if runner.limits.thread_safe:
                            self._run_one(runner, session, start)
                        else:
                            with turn:
                                self._run_one(runner, session, start)
                    session.close()
                except BaseException as e:
                    failures.append(e)

            threads = [threading.Thread(target=work, args=(i,)) for i in range(_THREADS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            if failures:
                raise AssertionError(f"in a thread: {failures[0]}") from failures[0]

    def test_padding_changes_no_valid_row(self) -> None:
        """Rows that repeat the last sample are answered too, and change no other."""
        with self.runner() as runner:
            batch = self._batch(runner, 0, 3, rows=_PART)
            with runner.session().run(batch) as lease:
                rows = {name: len(tensor) for name, tensor in lease.outputs.items()}
                _require(
                    all(count == batch.size for count in rows.values()),
                    f"a batch of {batch.size} rows was answered with {rows}",
                )
                self._check(lease.outputs, 0, batch.valid)

    def test_ids_and_inputs_stay_as_they_are(self) -> None:
        """It writes neither to the inputs nor to the ids that it is given."""
        with self.runner() as runner:
            batch = self._batch(runner)
            inputs = {name: _bits(array) for name, array in batch.inputs.items()}
            ids = batch.ids.tolist()
            runner.session().run(batch).release()
            _require(batch.ids.tolist() == ids, "the ids of the batch were changed")
            for name, array in batch.inputs.items():
                _require(_bits(array) == inputs[name], f"the input {name!r} was changed")

    def test_spec_survives_pickling(self) -> None:
        """A copy of its options, made elsewhere, is prepared as the same thing."""
        with self.place() as (spec, context):
            again = pickle.loads(pickle.dumps(spec))
            _require(again == spec, f"pickled and read back, {spec} is {again}")
            with self.prepare(again, context) as runner, self.prepare(spec, context) as same:
                one, two = runner.identity, same.identity
                _require(one == two, f"the same options have two identities, {one} and {two}")
                is_digest = len(one) == 64 and set(one) <= set("0123456789abcdef")
                _require(is_digest, f"the identity {one!r} isn't a SHA-256 in hex")

    def test_another_thing_has_another_identity(self) -> None:
        """Its identity differs from that of `other_table`; skipped where there is none."""
        with self.place() as (spec, context):
            table = self.other_table(context.folder)
            if table is None:
                raise unittest.SkipTest("give other_table, so that two things are seen to be two")
            other = spec_of(table)
            with self.prepare(spec, context) as one, self.prepare(other, context) as two:
                same = one.identity
                _require(same != two.identity, f"two things have the same identity {same}")

    def test_it_is_a_whole_runner(self) -> None:
        """Limits, tensors, identity, facts and findings are of the types that a run relies on."""
        with self.runner() as runner:
            problems = wrong_parts(runner)
            _require(not problems, f"its {'; its '.join(problems)}")
            runner.session().run(self._batch(runner)).release()
            before = {(finding.code, finding.message) for finding in runner.findings}
            problem = wrong_findings(found := runner.final_findings())
            _require(problem is None, f"final_findings() {problem}")
            after = {(finding.code, finding.message) for finding in found}
            lost = sorted(before - after)
            _require(not lost, f"final_findings() lacks {lost} of its findings")
            faults = [f.message for f in found if f.code == "runner.error"]
            _require(not faults, f"final_findings(): {'; '.join(faults)}")

    def test_a_batch_without_the_input_is_an_error(self) -> None:
        """What lacks its input raises `RunnerError` that names it; nothing else is raised."""
        with self.runner() as runner:
            session = runner.session()
            if not self.needs_input:
                session.run(self._lacking(runner)).release()
                return
            try:
                session.run(self._lacking(runner)).release()
            except RunnerError as e:
                name = next(iter(self.inputs()))
                _require(f"{name!r}" in str(e), f"the error doesn't name {name!r}: {e}")
                return
            raise AssertionError("a batch without its input was answered")

    def test_a_session_survives_an_error(self) -> None:
        """After an error the next batch is answered as ever."""
        with self.runner() as runner:
            session = runner.session()
            if self.needs_input:
                try:
                    session.run(self._lacking(runner)).release()
                except RunnerError:
                    pass
                else:
                    raise AssertionError("a batch without its input was answered")
            with session.run(self._batch(runner)) as lease:
                self._check(lease.outputs, 0, _PART)

    def test_closing_twice(self) -> None:
        """Closing twice is closing once; outputs that are held outlive both."""
        with self.runner() as runner:
            session = runner.session()
            lease = session.run(self._batch(runner))
            for _ in range(2):
                session.close()
                runner.close()
            self._check(lease.outputs, 0, _PART)
            lease.release()

    def test_facts_are_json(self) -> None:
        """What it says of itself can be written as JSON and read back the same."""
        with self.runner() as runner:
            facts = dict(runner.facts)
            again = json.loads(json.dumps(facts, allow_nan=False))
            _require(again == facts, f"the facts {facts} read back from JSON are {again}")

    def test_what_is_declared_is_what_comes(self) -> None:
        """Outputs that it declares come, no others, of that dtype and those fixed dims."""
        with self.runner() as runner, runner.session().run(self._batch(runner)) as lease:
            answered = {n: (dtype_name(t.dtype), t.ndim) for n, t in lease.outputs.items()}
            if runner.outputs is not None:
                specs = runner.outputs
                declared = {name: (spec.dtype, len(spec.shape)) for name, spec in specs.items()}
                _require(declared == answered, f"declared is {declared}, answered {answered}")
                problem = differs_from_declared(specs, lease.outputs)
                _require(problem is None, str(problem))
            seen = {n: (c.dtype, 1 + len(c.shape)) for n, c in (runner.observed or {}).items()}
            _require(seen == answered, f"observed is {seen}, answered {answered}")

    def _samples(self) -> int:
        return min(len(array) for array in self.inputs().values())

    def _batch(
        self, runner: Runner, start: int = 0, valid: int = _PART, rows: int = 0, number: int = 0
    ) -> Batch:
        """A batch of samples from `start` on, padded to rows or to a size that the runner takes."""
        limits = runner.limits
        if limits.is_fixed and limits.batch_sizes:
            fitting = [size for size in limits.batch_sizes if size >= max(valid, rows)]
            rows = min(fitting, default=max(limits.batch_sizes))
            valid = min(valid, rows)
        places = start + np.minimum(np.arange(max(valid, rows)), valid - 1)
        inputs = {name: array[places] for name, array in self.inputs().items()}
        return make_batch(inputs, start, valid, number=number)

    def _lacking(self, runner: Runner) -> Batch:
        """A batch whose first input has another name."""
        batch = self._batch(runner)
        first, *others = batch.inputs
        inputs = {"other": batch.inputs[first], **{name: batch.inputs[name] for name in others}}
        return make_batch(inputs, 0, batch.valid)

    def _run_one(self, runner: Runner, session: RunnerSession, start: int) -> None:
        batch = self._batch(runner, start)
        with session.run(batch) as lease:
            self._check(lease.outputs, start, start + batch.valid)

    def _check(self, outputs: Mapping[str, Tensor], start: int, stop: int) -> None:
        """Compare the valid rows with what is expected of the samples `[start, stop)`."""
        samples = {name: array[start:stop] for name, array in self.inputs().items()}
        wanted = self.expected(samples)
        names = sorted(outputs), sorted(wanted)
        _require(names[0] == names[1], f"answered are {names[0]}, expected {names[1]}")
        for name, right in wanted.items():
            for at in range(stop - start):
                self._check_sample(name, start + at, row_of(outputs[name], at), right[at, ...])

    def _check_sample(self, output: str, sample: int, found: Array, wanted: Array) -> None:
        where = f"output {output!r}, sample {sample}"
        shapes = (found.dtype, found.shape), (wanted.dtype, wanted.shape)
        _require(shapes[0] == shapes[1], f"{where}: is {shapes[0]}, expected {shapes[1]}")
        if self.atol or self.rtol:
            left, right = found.astype(np.float64), wanted.astype(np.float64)
            is_good = np.allclose(left, right, self.rtol, self.atol, equal_nan=True)
        else:
            is_nan = (found != found) & (wanted != wanted)
            is_good = bool(np.all((found == wanted) | is_nan))
        _require(is_good, f"{where}: is {found.tolist()}, expected {wanted.tolist()}")


def _require(is_met: bool, message: str) -> None:
    if not is_met:
        raise AssertionError(message)


def _bits(tensor: Tensor) -> object:
    rows = [row_of(tensor, at) for at in range(len(tensor))]
    return [row.tolist() if row.dtype == object else row.tobytes() for row in rows]
