"""Small inputs on which a device is held against the CPU; together they tell every mutant."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import numpy as np
from tests.gpu import equality
from tests.gpu.dtypes import a_pair
from tests.gpu.mutants.inputs import SMALL, ZERO, Array, Check
from tests.gpu.mutants.scores import of_argmax, of_bands, of_conversion, of_rows, of_topk
from tests.gpu.mutants.sent import of_along

from paritygate.core.policy import Tolerance
from paritygate.gpu import device, tally
from paritygate.gpu.device import cuda
from paritygate.gpu.gather import gathered
from paritygate.gpu.proof import Checksums, stamp_of

SPECIAL = (0.0, -0.0, 1.0, 5e-324, 1e-40, 3.4e38, 1.7e308, -1.7e308, math.nan, math.inf, -math.inf)
TILES = 5


def checked(ref: Array, cand: Array, tolerance: Tolerance, *how: Any, **names: Any) -> Check:
    ordinals, cuts, *stats = how
    stats = stats or ["gate"]
    return partial(equality.check, ref, cand, tolerance, ordinals, cuts, *stats, **names)


def alike(rng: Any, count: int, width: int, dtype: Any = np.float64) -> tuple[Array, Array]:
    """Values of both sides, of which a tenth is coarse enough for ties and some are special."""
    ref = rng.normal(size=(count, width)) * 4
    cand = ref * (1 + rng.normal(size=ref.shape) * 1e-3)
    is_coarse = rng.random(ref.shape) < 0.3
    ref[is_coarse], cand[is_coarse] = 2.0, 2.0 + rng.integers(-1, 3, is_coarse.sum())
    with np.errstate(over="ignore"):
        return ref.astype(dtype), cand.astype(dtype)


def with_special(rng: Any, sides: tuple[Array, Array], share: float) -> tuple[Array, Array]:
    with np.errstate(over="ignore"):
        some = np.array(SPECIAL).astype(sides[0].dtype)
    for side in sides:
        at = rng.random(side.shape) < share
        side[at] = rng.choice(some, at.sum())
    same = rng.random(sides[0].shape) < 0.1
    sides[1][same] = sides[0][same]
    return sides


def of_scan() -> Iterator[Check]:
    rng = np.random.default_rng(1)
    n = TILES * device.TILE
    yield checked(*alike(rng, n, 1), SMALL, range(5, 5 + n), [11])
    narrow = alike(rng, n // 3, 3, np.float32)
    yield checked(*narrow, Tolerance(1e-3, 1e-3, max_abs=1.0), rng.permutation(n)[: n // 3], [4])
    for match in ("fail", "match"):
        sides = with_special(rng, alike(rng, n, 1), 0.3)
        yield checked(*sides, Tolerance(1e-6, 0.1, nonfinite=match), rng.permutation(n), [n // 2])
    tile = device.TILE
    factor = np.full((8 * tile, 1), 0.25)  # small errors, behind a large one in each block
    factor[: 2 * tile], factor[7 * tile + 1], factor[-1] = 64.0, 1.125, 1.0
    sides = np.ones_like(factor), 1.0 + factor * 2.0**-10
    yield checked(*sides, Tolerance(2.0**-10, 0.0), range(len(factor)), [])
    yield checked(*sides, Tolerance(9.0, 0.0, max_abs=2.0**-10), range(len(factor)), [])
    ref, share = np.ones((6 * tile, 1)), np.full((6 * tile, 1), 0.125)
    share[: 2 * tile] = 0.5  # of the bound; then a bit more of a smaller one, and larger errors
    ref[20], share[20], ref[-2:], share[-2:] = 0.5, 0.5025, 4.0, 0.25
    ref[-9], share[-9], ref[-12], share[-12] = 4.0, 0.125, 2.0, 0.25
    yield checked(ref, ref * (1 + share * 2.0**-7), Tolerance(0.0, 2.0**-7), range(len(ref)), [])
    share[-2:] = 0.125  # as large as others, of smaller bounds
    backwards = np.arange(len(ref))[::-1]
    yield checked(ref, ref * (1 + share * 2.0**-7), Tolerance(0.0, 2.0**-7), backwards, [])
    for broken in (math.nan, math.inf):
        cand = ref.copy()
        cand[25] = broken
        yield checked(ref, cand, SMALL, range(len(ref)), [])
        yield checked(ref, ref, SMALL, range(len(ref)), [9])
    ref, cand = np.ones((n, 1)), np.full((n, 1), 1e298)
    cand[: 2 * tile], ref[n - 3], cand[n - 3] = 1e300, 1.7e308, 1.7e308 - 1e299
    yield checked(ref, cand, Tolerance(1e308, 0.999), range(n), [])
    unit = 5e-324
    ref, cand = np.full((n, 1), 8 * unit), np.full((n, 1), 11 * unit)
    ref[n - 3], cand[n - 3] = 2 * unit, 3 * unit
    yield checked(ref, cand, Tolerance(0.0, 0.5), range(n), [])
    size = rng.normal(size=(30, 1)) * 2.0 ** rng.integers(-1070, 1000, (30, 1))
    yield checked(np.zeros_like(size), size, ZERO, range(30), [])
    rising = np.arange(n - 1.0).reshape(-1, 3)
    for step in (1, -1):
        yield checked(-np.ones_like(rising), rising[::step].copy(), ZERO, range(len(rising)), [5])
    equal = np.zeros((n, 1), np.float32)
    yield checked(equal, equal + np.float32(0.5), SMALL, np.roll(np.arange(n), 11)[::-1], [9])
    yield checked(np.array([[-1.7e308], [0.0]]), np.array([[1.7e308], [0.5]]), SMALL, range(2), [])


def of_failing() -> Iterator[Check]:
    rng = np.random.default_rng(2)
    for width, count in ((1, 30), (3, 20), (16, 4), (device.TILE * 2 + 3, 4)):
        for match, share in (("fail", 0.3), ("match", 0.0)):
            given = {"nonfinite": match, "max_outlier_fraction": share, "max_abs": 2.0 - share}
            sides = with_special(rng, alike(rng, count, width), 0.1 if width > 1 else 0.4)
            yield checked(*sides, Tolerance(1e-3, 1e-3, **given), range(count), [count // 2])
    ref, cand = np.ones((4, 16), np.float32), np.ones((4, 16), np.float32)
    cand[1], cand[2, 5:], cand[3, 2] = np.nan, np.inf, 3.0
    yield checked(ref, cand, SMALL, range(4), [2])
    ref, cand = np.full((3, 16), 2.0), np.full((3, 16), 2.0)
    cand[0, 3:9], cand[1, [5, 2]], ref[2], cand[2, [0, 4, 5]] = (
        5.0,
        (5.0, 6.0),
        0.0,
        (1.0, 2.0, 9.0),
    )
    yield checked(ref, cand, ZERO, range(3), [])


def of_full() -> Iterator[Check]:
    rng = np.random.default_rng(3)
    for width, count in ((1, 44), (16, 5), (23, 3)):
        for is_shuffled in (False, True):
            sides = with_special(rng, alike(rng, count, width), 0.04 if width > 1 else 0.2)
            ordinals = rng.permutation(count) if is_shuffled else range(count)
            yield checked(*sides, Tolerance(2.0, 0.1), ordinals, [count // 2], "full")
    pattern = np.resize(np.arange(1.0, 17.0), (12, 16))
    noisy = pattern * np.array([1.0, 1.5, 1.25])[np.arange(12) % 3][:, None]
    yield checked(pattern, noisy, SMALL, np.arange(12)[::-1], [7], "full")
    yield checked(pattern, pattern, SMALL, range(12), [], "full")
    ref = np.ones((5, 16))
    ref[1], ref[2], ref[4] = 0.0, 1e200, 1e-150
    cand = ref * 1.5
    cand[2], cand[3], cand[4] = ref[2], 1e200, 1e150
    yield checked(ref, cand, SMALL, range(5), [2], "full")
    size = rng.normal(size=(24, 2)) * 2.0 ** rng.integers(-300, 300, (24, 2))
    yield checked(size[:, :1].copy(), size[:, 1:].copy(), SMALL, range(24), [], "full")
    n = 3 * device.TILE
    ref, cand = np.ones((n, 2), np.float32), np.ones((n, 2), np.float32)
    cand[:, 1] += np.float32(2.0**-20)
    yield checked(ref, cand, SMALL, np.roll(np.arange(n), 5)[::-1], [n // 3], "full")
    wide = np.array([[1.0], [65504.0], [65519.996], [65520.0], [-1e6], [np.inf]], np.float32)
    half = np.array([[1.0], [65472.0], [65472.0], [65504.0], [-65504.0], [1.0]], np.float16)
    for rows in (6, 4):
        sides = wide[:rows], half[:rows]
        yield checked(*sides, SMALL, range(rows), [1], "full", names=("float32", "float16"))
    ref = np.array([[1e-3], [np.nextafter(1e-3, 0)], [-1e-3], [5.0], [0.0], [-0.0], [-5e-324]])
    cand = np.nextafter(ref, np.array([[9.0], [-9.0], [-9.0], [9.0], [1.0], [1.0], [1.0]]))
    yield checked(ref, cand, SMALL, range(7), [], "full")
    far = np.array([[-1.7976931348623157e308], [0.0]])
    yield checked(far, -far, SMALL, range(2), [], "full")


def of_whole() -> Iterator[Check]:
    rng = np.random.default_rng(4)
    for name, stats in (("int64", "full"), ("uint64", "gate"), ("uint64", "full")):
        for width in (1, 5):
            ref, cand, _ = a_pair(rng, (name, name), (40 // width, width))
            near = rng.random(ref.shape) < 0.5
            cand[near] = (ref + 3)[near]
            tolerance = Tolerance(1.5, 0.1, max_abs=1e5, max_outlier_fraction=0.3)
            ordinals = rng.permutation(len(ref))
            yield checked(ref, cand, tolerance, ordinals, [3], stats, names=(name, name))
        ref, cand = np.zeros((3, 1), name), np.array([[0], [2**53 + 1], [2**53]], name)
        for tolerance in (Tolerance(2.0**53, 0.0), Tolerance(2.0**60, 0.0, max_abs=2.0**53)):
            yield checked(ref, cand, tolerance, range(3), [], stats, names=(name, name))
    longs = {"names": ("int64", "int64")}
    ref = np.arange(30, dtype=np.int64).reshape(15, 2)
    for tolerance in (Tolerance(2.0, 0.0), ZERO):
        yield checked(ref, ref + 3, tolerance, np.roll(np.arange(15), 11)[::-1], [9], **longs)
        yield checked(ref, ref + 3, tolerance, range(15), [9], **longs)
    rising = np.array([[2**60 + k for k in range(16)]], np.int64)
    for step in (1, -1):
        sides = np.zeros_like(rising), rising[:, ::step].copy()
        yield checked(*sides, Tolerance(1.0, 0.0), range(1), [], **longs)
        flat = sides[1].reshape(16, 1)
        yield checked(np.zeros_like(flat), flat, ZERO, range(16), [], **longs)


def of_widening() -> Iterator[Check]:
    rng = np.random.default_rng(5)
    narrow = ("float16", "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2")
    for name in narrow:
        ref, cand, tolerance = a_pair(rng, (name, name), (60, 1))
        size = ref.dtype.itemsize
        bits = np.linspace(0, 256**size - 1, 60).astype(f"u{size}")
        bits[30] = 256**size // 2  # -0, or the only NaN
        ref[:, 0] = bits.view(ref.dtype)
        yield checked(ref, cand, tolerance, range(60), [7], names=(name, name))
    beyond = np.array([[1.0], [65520.0], [-1e6], [np.inf], [-np.inf], [np.nan]], np.float32)
    given = {"names": ("float32", "float16")}
    yield checked(beyond, np.ones((6, 1), np.float16), ZERO, range(6), [], **given)
    flags = rng.integers(0, 3, (20, 3), dtype=np.uint8).view(np.bool_)
    yield checked(flags, flags[::-1].copy(), ZERO, range(20), [], names=("bool", "bool"))
    ends = np.array([[-128], [127], [126], [-127], [0], [127]], np.int8)
    yield checked(ends, ends[::-1].copy(), ZERO, range(6), [], names=("int8", "int8"))


def of_blocks() -> Iterator[Check]:
    """More blocks than a block has threads."""
    own = cast(Any, tally)
    own._SIMULATED_BLOCKS, usual = 3 * device.THREADS, own._SIMULATED_BLOCKS
    rng = np.random.default_rng(9)
    n = 13 * device.TILE
    ref, cand = np.ones((n, 1)), np.ones((n, 1))
    cand[-2] = 3.0
    yield checked(ref, cand, SMALL, range(n), [n // 3])
    equal = np.zeros((n, 1), np.float32)
    yield checked(equal, equal + np.float32(0.5), SMALL, np.roll(np.arange(n), 11)[::-1], [9])
    sides = alike(rng, n // 16, 16)
    yield checked(*sides, SMALL, rng.permutation(n // 16), [], "full")
    yield from of_rows([{"argmax": True, "axis": 1}] * 2, ((2,),), 10, 50)
    own._SIMULATED_BLOCKS = usual


def agree(words: Array, row: int) -> None:
    sums = Checksums(2)
    total = sum((2 * k + 1) * word for k, word in enumerate(words.tolist())) % (1 << 64)
    for serial in (3, 4):
        sums.add(row, cuda.to_device(words), stamp_of(serial), total)
    assert sums.agree()


def of_sent() -> Iterator[Check]:
    rng = np.random.default_rng(11)
    for row in range(2):
        yield partial(agree, rng.integers(0, 1 << 64, 21, dtype=np.uint64), row)


def picked(values: Array, cut: int, rows: list[int]) -> None:
    parts = [cuda.to_device(values[:cut]), cuda.to_device(values[cut:])]
    found = gathered(parts, [0, cut, len(values)], np.array(rows))
    np.testing.assert_array_equal(found.view(values.dtype), values[rows])


def of_picked() -> Iterator[Check]:
    rng = np.random.default_rng(12)
    for dtype in (np.float32, np.float64, np.uint8):
        values = rng.integers(0, 99, (9, 3)).astype(dtype)
        yield partial(picked, values, 4, [1, 3, 4, 7, 8])


CASES: dict[str, Callable[[], Iterator[Check]]] = {
    "along": of_along,
    "scan": of_scan,
    "failing": of_failing,
    "full": of_full,
    "whole": of_whole,
    "widening": of_widening,
    "bands": of_bands,
    "argmax": of_argmax,
    "topk": of_topk,
    "conversion": of_conversion,
    "blocks": of_blocks,
    "sent": of_sent,
    "picked": of_picked,
}
