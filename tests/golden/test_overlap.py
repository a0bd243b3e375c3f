"""Equal samples in one pack and in two: found by their inputs, all of them, in little memory."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.packs import write_pack

from paritygate.core.errors import GoldenError
from paritygate.golden import equal
from paritygate.golden.equal import DigestStore, repeated, shared
from paritygate.golden.overlap import OverlapCheck

KEYS = st.lists(st.integers(0, 12), max_size=40)


def store(keys: list[int], piece: int = 7) -> DigestStore:
    digests = [hashlib.sha256(bytes([key])).digest() for key in keys]
    return DigestStore((at, digests[at : at + piece]) for at in range(0, len(keys), piece))


@settings(deadline=None)
@given(KEYS, KEYS, st.sampled_from([1, 5, 1 << 17]), st.sampled_from([1, 8, 1 << 18]))
def test_equal_samples_are_those_of_brute_force(
    ours: list[int], theirs: list[int], piece: int, at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(equal, "_PIECE", piece)
        patch.setattr(equal, "_AT_ONCE", at_once)
        mine, other = store(ours), store(theirs)
        again, both = repeated(mine), shared(mine, other)
        mine.close()
        other.close()
    expected = [(row, ours.index(key)) for row, key in enumerate(ours) if key in ours[:row]]
    assert (again.count, list(again.first)) == (len(expected), expected[:10])
    expected = [(row, theirs.index(key)) for row, key in enumerate(ours) if key in theirs]
    assert (both.count, list(both.first)) == (len(expected), expected[:10])


def test_samples_are_found_under_other_ids_dtypes_of_storage_and_order(tmp_path: Path) -> None:
    x = np.arange(30, dtype=np.float32).reshape(10, 3)
    write_pack(tmp_path / "a.arrow", [f"a{i}" for i in range(10)], {"x": x}, label=range(10))
    rows = [4, 1]
    more = np.full((5, 3), 99, np.float32)
    write_pack(
        tmp_path / "b.parquet",
        range(7),
        {"x": np.concatenate([more, x[rows]])},
        tensor_type="fixed_size_list",
        container="parquet",
    )
    check = OverlapCheck(["a.arrow"], ["b.parquet"], tmp_path)
    found = check.run()
    check.close()
    assert (found.count, found.samples) == (2, 7)
    assert found.first == (("a1", 6), ("a4", 5))


def test_a_pack_without_ids_is_told_by_rows(tmp_path: Path) -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    write_pack(tmp_path / "a.arrow", [1, 2], {"x": x})
    write_pack(tmp_path / "b.arrow", [1, 2], {"x": x}, id_column="other")
    check = OverlapCheck(["a.arrow"], ["b.arrow"], tmp_path)
    assert check.run().first == ((1, "row 0"), (2, "row 1"))
    check.close()


@pytest.mark.parametrize("other", [{"y": np.float32}, {"x": np.float64}, {}])
def test_inputs_that_can_not_be_equal_are_refused(
    tmp_path: Path, other: dict[str, type[np.generic]]
) -> None:
    write_pack(tmp_path / "a.arrow", [1], {"x": np.zeros((1, 2), np.float32)})
    inputs = {name: np.zeros((1, 2), dtype) for name, dtype in other.items()}
    write_pack(tmp_path / "b.arrow", [1], inputs)
    with pytest.raises(GoldenError, match="its inputs are") as error:
        OverlapCheck(["a.arrow"], ["b.arrow"], tmp_path)
    assert error.value.code == "golden.schema"
    if not other:
        with pytest.raises(GoldenError, match="no column in.NAME"):
            OverlapCheck(["b.arrow"], ["a.arrow"], tmp_path)


MEMORY = """
import resource, sys
from pathlib import Path
import numpy as np
from paritygate.golden.overlap import OverlapCheck
check = OverlapCheck(["a.arrow"], ["b.arrow"], Path(sys.argv[1]))
print(check.run().count, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_packs(tmp_path: Path) -> None:
    peaks = []
    for samples in (250_000, 1_000_000):
        for name, start in (("a", 0), ("b", samples - 5)):
            x = np.arange(start, start + samples, dtype=np.float64)
            write_pack(tmp_path / f"{name}.arrow", range(samples), {"x": x}, rows_per_batch=65_536)
        done = subprocess.run(
            [sys.executable, "-c", MEMORY, str(tmp_path)],
            capture_output=True,
            text=True,
            check=True,
        )
        count, peak = map(int, done.stdout.split())
        assert count == 5
        peaks.append(peak)
    assert peaks[1] < peaks[0] + 24_000, peaks
