"""What every kind of runner must do, as tests that each kind inherits."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from tests.packs import write_pack

from paritygate.core.dtypes import dtype_name
from paritygate.core.errors import RunnerError
from paritygate.core.tensors import Batch, ColumnSpec
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.runners.base import PrepareContext, Runner, RunnerSpec
from paritygate.runners.registry import parse_runner, prepare

SAMPLES, WIDTH = 40, 4
Outputs = Mapping[str, npt.NDArray[np.generic]]


def golden_inputs(samples: int = SAMPLES) -> npt.NDArray[np.float32]:
    """x of the golden samples: `(samples, WIDTH)`, no two rows the same."""
    rng = np.random.default_rng(7)
    return rng.normal(size=(samples, WIDTH)).astype(np.float32)


def make_batch(
    x: npt.NDArray[np.generic],
    start: int = 0,
    valid: int | None = None,
    ids: npt.NDArray[np.generic] | None = None,
    name: str = "x",
    number: int = 0,
) -> Batch:
    """A batch of the rows of x, of which the first `valid` count; inputs are read-only."""
    size = len(x)
    valid = size if valid is None else valid
    x = np.ascontiguousarray(x)
    x.flags.writeable = False
    if ids is None:
        ids = np.arange(start, start + valid, dtype=np.int64)
    return Batch(0, number, start, valid, size, ids, {name: x})


def spec_of(table: object, name: str = "runner") -> RunnerSpec:
    """The specification of a runner table that must be valid."""
    spec, problems = parse_runner(name, table, Path())
    assert not problems, problems
    assert spec is not None
    return spec


def context_of(
    folder: Path,
    pack: GoldenPack | None = None,
    constants: Mapping[str, npt.NDArray[np.generic]] | None = None,
    inputs: Mapping[str, ColumnSpec] | None = None,
) -> PrepareContext:
    """A context without model checks; without a pack the input is x, float32 `[batch, WIDTH]`."""
    columns = {"x": ColumnSpec("x", "float32", (WIDTH,))} if inputs is None else dict(inputs)
    if pack is not None:
        columns = dict(pack.inputs)
    return PrepareContext(folder, pack, columns, constants or {}, check_models=False)


def _bits(array: npt.NDArray[np.generic]) -> object:
    return array.tolist() if array.dtype == object else array.tobytes()


class RunnerContract:
    """Inherit and give `table` and `answers`; the golden pack has x and, recorded, out.y."""

    #: Whether a batch that lacks the input is an error (recorded outputs need none).
    needs_input = True

    def table(self, folder: Path) -> object:
        """The runner's table; files that it needs are made in `folder`."""
        raise NotImplementedError

    def answers(self, x: npt.NDArray[np.float32]) -> Outputs:
        """What the runner must answer to the rows of x."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path

    @pytest.fixture
    def pack(self, folder: Path) -> Iterator[GoldenPack]:
        x = golden_inputs()
        write_pack(
            folder / "golden.arrow",
            np.arange(SAMPLES),
            {"x": x},
            {"y": 2 * x},
            rows_per_batch=16,
        )
        with open_pack(["golden.arrow"], folder) as pack:
            yield pack

    @pytest.fixture
    def context(self, folder: Path, pack: GoldenPack) -> PrepareContext:
        return context_of(folder, pack)

    @pytest.fixture
    def runner(self, folder: Path, context: PrepareContext) -> Iterator[Runner]:
        with prepare(spec_of(self.table(folder)), context) as runner:
            yield runner

    def test_answers(self, runner: Runner) -> None:
        x = golden_inputs()
        with runner.session().run(make_batch(x[:8])) as lease:
            self._check(lease.outputs, x[:8])
            assert lease.present is None or lease.present.all()

    def test_the_same_answer_every_time(self, runner: Runner) -> None:
        x = golden_inputs()[:8]
        one, two = runner.session(), runner.session()
        found = []
        for session in (one, one, two, one):
            with session.run(make_batch(x)) as lease:
                found.append({k: _bits(v) for k, v in lease.outputs.items()})
        assert all(f == found[0] for f in found)

    def test_a_lease_stays_until_it_is_released(self, runner: Runner) -> None:
        x = golden_inputs()
        session = runner.session()
        leases = [(s, session.run(make_batch(x[s : s + 8], s, number=s))) for s in range(0, 40, 8)]
        for start, lease in leases:
            self._check(lease.outputs, x[start : start + 8])
        for _, lease in leases:
            lease.release()
            lease.release()
        again = session.run(make_batch(x[8:16], 8))
        other = session.run(make_batch(x[16:24], 16))
        self._check(again.outputs, x[8:16])
        self._check(other.outputs, x[16:24])

    def test_any_batch_size_in_any_order(self, runner: Runner) -> None:
        x = golden_inputs()
        session = runner.session()
        for size in (8, 1, 8, 40, 3, 1, 8):
            with session.run(make_batch(x[:size])) as lease:
                self._check(lease.outputs, x[:size])

    def test_sessions_at_the_same_time(self, runner: Runner) -> None:
        x = golden_inputs()
        failures: list[BaseException] = []

        def work(offset: int) -> None:
            try:
                session = runner.session()
                for turn in range(30):
                    start = (offset * 7 + turn) % 32
                    with session.run(make_batch(x[start : start + 8], start)) as lease:
                        self._check(lease.outputs, x[start : start + 8])
                session.close()
            except BaseException as e:
                failures.append(e)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures[0]

    def test_padding_changes_no_valid_row(self, runner: Runner) -> None:
        x = golden_inputs()
        session = runner.session()
        padded = np.concatenate([x[:3], np.repeat(x[2:3], 5, axis=0)])
        with session.run(make_batch(padded, valid=3)) as lease:
            assert all(len(array) == 8 for array in lease.outputs.values())
            self._check({k: v[:3] for k, v in lease.outputs.items()}, x[:3])

    def test_ids_and_inputs_stay_as_they_are(self, runner: Runner) -> None:
        x = golden_inputs()[:8]
        ids = np.arange(8, dtype=np.int64)
        batch = make_batch(x.copy(), ids=ids)
        runner.session().run(batch).release()
        assert (ids == np.arange(8)).all()
        assert batch.inputs["x"].tobytes() == x.tobytes()

    def test_spec_survives_pickling(self, folder: Path, context: PrepareContext) -> None:
        spec = spec_of(self.table(folder))
        again = pickle.loads(pickle.dumps(spec))
        assert again == spec
        with prepare(again, context) as runner, prepare(spec, context) as same:
            assert runner.identity == same.identity
            assert len(runner.identity) == 64

    def test_a_batch_without_the_input_is_an_error(self, runner: Runner) -> None:
        batch = make_batch(golden_inputs()[:8], name="other")
        if not self.needs_input:
            runner.session().run(batch).release()
            return
        with pytest.raises(RunnerError, match="'x'"):
            runner.session().run(batch)

    def test_a_session_survives_an_error(self, runner: Runner) -> None:
        x = golden_inputs()
        session = runner.session()
        if self.needs_input:
            with pytest.raises(RunnerError):
                session.run(make_batch(x[:8], name="other"))
        with session.run(make_batch(x[:8])) as lease:
            self._check(lease.outputs, x[:8])

    def test_closing_twice(self, runner: Runner) -> None:
        session = runner.session()
        lease = session.run(make_batch(golden_inputs()[:8]))
        for _ in range(2):
            session.close()
            runner.close()
        self._check(lease.outputs, golden_inputs()[:8])
        lease.release()

    def test_facts_are_json(self, runner: Runner) -> None:
        import json

        json.dumps(dict(runner.facts), allow_nan=False)
        assert json.loads(json.dumps(dict(runner.facts))) == dict(runner.facts)

    def test_what_is_declared_is_what_comes(self, runner: Runner) -> None:
        with runner.session().run(make_batch(golden_inputs()[:8])) as lease:
            if runner.outputs is not None:
                assert set(runner.outputs) == set(lease.outputs)
                for name, spec in runner.outputs.items():
                    assert dtype_name(lease.outputs[name].dtype) == spec.dtype
                    assert lease.outputs[name].ndim == len(spec.shape)
            observed = runner.observed
            assert observed is not None
            assert {n: (c.dtype, c.shape) for n, c in observed.items()} == {
                n: (dtype_name(a.dtype), a.shape[1:]) for n, a in lease.outputs.items()
            }

    def _check(self, outputs: Outputs, x: npt.NDArray[np.float32]) -> None:
        wanted = self.answers(x)
        assert set(outputs) == set(wanted)
        for name, array in wanted.items():
            np.testing.assert_array_equal(outputs[name], array, strict=True)
