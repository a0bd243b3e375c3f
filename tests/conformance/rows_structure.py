"""Rows about what is compared at all: samples, outputs, shapes, batches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.conformance.case import RELEASE, Call, Case, Expected, hold, incomplete, unjudged
from tests.conformance.live import Functions
from tests.conformance.recordings import Pair, Recording, Recordings
from tests.packs import write_pack

import paritygate

F32 = np.float32
Y = np.arange(12, dtype=F32).reshape(6, 2)
IDS = [1, 2, 3, 4, 5, 6]
SIX = Recording(IDS, {"y": Y})
NONE = Recording([], {"y": Y[:0]})
EXCEEDED = hold("tolerance.exceeded")


def some(*rows: int, by: float = 0.0) -> Recording:
    """Samples of `SIX` by row, in this order; `by` is added to the outputs."""
    return Recording([IDS[r] for r in rows], {"y": Y[list(rows)] + F32(by)})


def no_glob(folder: Path) -> Any:
    return paritygate.compare(folder / "none-*.arrow", folder / "x.arrow", out=None)


def no_inputs(folder: Path) -> Any:
    del folder
    return paritygate.verify(lambda x: x, lambda x: x, [], atol=0.0, rtol=0.0)


ZERO_WIDTH = Recording(IDS, {"y": np.zeros((6, 0), F32)})
BESIDE = Recording(IDS, {"y": Y, "boxes": np.zeros((6, 0), F32)})

NOTHING = [
    Case("nothing", "both packs have no samples", Recordings(NONE, NONE), hold("evidence.empty")),
    Case(
        "nothing",
        "the golden pack has no samples, the candidate has",
        Recordings(NONE, SIX),
        hold("evidence.empty", "sample.extra"),
    ),
    Case(
        "nothing",
        "the candidate has no samples",
        Recordings(SIX, NONE),
        hold("evidence.empty", "sample.missing"),
        ("6 of 6",),
    ),
    Case(
        "nothing",
        "both packs have other samples: no id in common",
        Recordings(SIX, Recording([7, 8, 9, 10, 11, 12], {"y": Y})),
        hold("evidence.empty", "sample.missing", "sample.extra"),
    ),
    Case("nothing", "one sample, equal", Recordings(some(2), some(2)), RELEASE),
    Case(
        "nothing",
        "the only output has no elements",
        Recordings(ZERO_WIDTH, ZERO_WIDTH),
        hold("evidence.empty"),
        ("y",),
    ),
    Case(
        "nothing",
        "one of two outputs has no elements",
        Recordings(BESIDE, BESIDE),
        hold("evidence.empty"),
        ("boxes",),
    ),
    Case(
        "nothing",
        "the only output is ignored",
        Recordings(SIX, SIX, stage={"ignore": ["y"]}),
        hold("evidence.empty"),
    ),
    Case(
        "nothing",
        "one of two outputs is ignored, the other agrees",
        Recordings(BESIDE, BESIDE, stage={"ignore": ["boxes"]}),
        RELEASE,
    ),
    Case(
        "nothing",
        "the pack has no recorded output",
        Recordings(Recording(IDS, {}, {"x": Y}), SIX),
        unjudged("runner.load_failed"),
    ),
    Case(
        "nothing",
        "--limit 0",
        Recordings(SIX, SIX, options={"limit": 0}),
        hold("evidence.empty"),
    ),
    Case(
        "nothing", "a glob without a match", Call("compare", no_glob), unjudged("golden.no_match")
    ),
    Case("nothing", "verify without a batch of inputs", Call("verify", no_inputs), unjudged()),
    Case("nothing", "a plan without stages", Recordings(SIX, SIX, plan={"stages": []}), unjudged()),
    Case(
        "nothing",
        "a plan without a golden pack",
        Recordings(SIX, SIX, plan={"golden": []}),
        unjudged(),
    ),
    Case(
        "nothing",
        "every sample breaks the input contract",
        Recordings(
            Recording(IDS, {"y": Y}, {"x": Y + 100}),
            SIX,
            plan={"inputs": {"x": {"range": [0.0, 50.0]}}},
        ),
        hold("sample.rejected", "evidence.empty"),
    ),
    Case(
        "nothing",
        "the candidate raises for every sample",
        Functions("def ref(x):\n    return {'y': x['x']}\n\ndef cand(x):\n    return 1 / 0\n", Y),
        hold("runner.disagreement", "evidence.empty"),
        ("ZeroDivisionError",),
    ),
]

FEWER = [
    Case(
        "fewer",
        "the candidate has 1 of 3 samples",
        Recordings(some(0, 1, 2), some(1)),
        hold("sample.missing"),
        ("2 of 3",),
        (1, 3),
    ),
    Case(
        "fewer",
        "the candidate has a sample more",
        Recordings(some(0, 1, 2), some(0, 1, 2, 3)),
        hold("sample.extra"),
        (),
        (4,),
    ),
    Case(
        "fewer",
        "as many on both sides, one of them another",
        Recordings(some(0, 1, 2), some(0, 1, 3)),
        hold("sample.missing", "sample.extra"),
        (),
        (3, 4),
    ),
    Case(
        "fewer",
        "ids that are off by one, outputs in equal order",
        Recordings(some(0, 1, 2), Recording([2, 3, 4], {"y": Y[:3]})),
        hold("sample.missing", "sample.extra", "tolerance.exceeded"),
    ),
    Case(
        "fewer",
        "the same samples in another order",
        Recordings(SIX, some(4, 0, 5, 2, 1, 3)),
        RELEASE,
    ),
    Case(
        "fewer",
        "ids in equal order, two outputs swapped",
        Recordings(SIX, Recording(IDS, {"y": Y[[0, 2, 1, 3, 4, 5]]})),
        EXCEEDED,
        (),
        (2, 3),
    ),
    Case(
        "fewer",
        "the candidate has a sample twice, the second one wrong",
        Recordings(some(0, 1), Recording([1, 2, 2], {"y": Y[[0, 1, 5]]})),
        hold("sample.duplicate"),
        (),
        (2,),
    ),
    Case(
        "fewer",
        "the candidate has a sample twice, equal both times",
        Recordings(some(0, 1), some(0, 1, 1)),
        hold("sample.duplicate"),
    ),
    Case(
        "fewer",
        "the golden pack has a sample twice",
        Recordings(some(0, 1, 1), some(0, 1)),
        unjudged("golden.duplicate_id"),
        ("2",),
    ),
    Case(
        "fewer",
        "the golden pack has a sample without an id",
        Recordings(Recording(pa.array([1, None]), {"y": Y[:2]}), some(0, 1)),
        unjudged("golden.null_id"),
    ),
    Case(
        "fewer",
        "the candidate has a sample without an id",
        Recordings(some(0, 1), Recording(pa.array([1, None]), {"y": Y[:2]})),
        hold("golden.null_id", "stage.not_run"),
    ),
    Case(
        "fewer",
        "ids 1 and 2 against ids '1' and '2'",
        Recordings(some(0, 1), Recording(["1", "2"], {"y": Y[:2]})),
        unjudged("runner.load_failed"),
        ("string", "int64"),
    ),
    Case(
        "fewer",
        "six samples where the plan demands seven",
        Recordings(SIX, SIX, plan={"min_samples": 7}),
        hold("evidence.too_few"),
        ("6", "7"),
    ),
    Case(
        "fewer",
        "six samples where the plan demands six",
        Recordings(SIX, SIX, plan={"min_samples": 6}),
        RELEASE,
    ),
    Case(
        "fewer",
        "six samples where the plan demands six, one of them rejected",
        Recordings(
            Recording(IDS, {"y": Y}, {"x": Y}),
            SIX,
            plan={"min_samples": 6, "inputs": {"x": {"range": [0.0, 10.5]}}},
        ),
        hold("sample.rejected", "evidence.too_few"),
        (),
        (6,),
    ),
    Case(
        "fewer",
        "every input inside the contract's range, bounds included",
        Recordings(
            Recording(IDS, {"y": Y}, {"x": Y}),
            SIX,
            plan={"inputs": {"x": {"range": [0.0, 11.0]}}},
        ),
        RELEASE,
    ),
    Case(
        "fewer",
        "one input is NaN",
        Recordings(
            Recording(IDS, {"y": Y}, {"x": np.where(Y == 4, F32(np.nan), Y)}),
            SIX,
            plan={"inputs": {"x": {}}},
        ),
        hold("sample.rejected"),
        (),
        (3,),
    ),
    Case(
        "fewer",
        "min_samples = 0",
        Recordings(SIX, SIX, plan={"min_samples": 0}),
        unjudged(),
    ),
    Case(
        "fewer",
        "--limit 3 of 6 samples, all clean",
        Recordings(SIX, SIX, options={"limit": 3}),
        incomplete("evidence.partial"),
        ("3 of 6",),
    ),
    Case(
        "fewer",
        "--limit 3 of 6 samples, the last one of them off",
        Recordings(SIX, some(0, 1, 2, 3, 4, 5, by=1.0), options={"limit": 3}),
        EXCEEDED,
    ),
    Case(
        "fewer",
        "--limit 6 of 6 samples",
        Recordings(SIX, SIX, options={"limit": 6}),
        RELEASE,
    ),
    Case(
        "fewer",
        "one of two stages",
        Recordings(
            SIX,
            SIX,
            options={"stage": "first"},
            plan={
                "stages": [
                    {
                        "name": n,
                        "reference": "ref",
                        "candidate": "cand",
                        "default": {"atol": 0.0, "rtol": 0.0},
                    }
                    for n in ("first", "second")
                ]
            },
        ),
        incomplete("stage.not_run"),
        ("second",),
    ),
    Case(
        "fewer",
        "a null inside a recorded output of the candidate",
        Recordings(
            Recording([1, 2], {"y": np.array([1, 2], F32)}),
            Recording([1, 2], columns={"out.y": pa.array([1, None], pa.float32())}),
        ),
        hold("golden.null_value", "stage.not_run"),
        ("2",),
    ),
    Case(
        "fewer",
        "a function answers a row less than it is given",
        Functions(
            "def ref(g):\n    return {'y': g['x']}\n\n"
            "def cand(g):\n    return {'y': g['x'][:-1]}\n",
            Y,
        ),
        hold("runner.error", "evidence.empty"),
    ),
    Case(
        "fewer",
        "a function answers a row more than it is given",
        Functions(
            "def ref(g):\n    return {'y': g['x']}\n\n"
            "def cand(g):\n    return {'y': np.concatenate([g['x'], g['x'][:1]])}\n",
            Y,
        ),
        hold("runner.error", "evidence.empty"),
    ),
]

TWO = Recording(IDS, {"y": Y, "z": Y + 1})
ZERO = {"atol": 0.0, "rtol": 0.0}

OUTPUTS = [
    Case("outputs", "two outputs, both equal", Recordings(TWO, TWO), RELEASE),
    Case(
        "outputs",
        "two outputs, the second off",
        Recordings(TWO, Recording(IDS, {"y": Y, "z": Y})),
        EXCEEDED,
        ("'z'",),
    ),
    Case(
        "outputs",
        "the candidate lacks an output",
        Recordings(TWO, SIX),
        hold("output.missing"),
        ("z", "candidate"),
    ),
    Case(
        "outputs",
        "the candidate has an output more",
        Recordings(SIX, TWO),
        hold("output.missing"),
        ("z", "reference"),
    ),
    Case(
        "outputs",
        "the candidate has an output more, which the stage ignores",
        Recordings(SIX, TWO, stage={"ignore": ["z"]}),
        RELEASE,
    ),
    Case(
        "outputs",
        "both sides have an output that the stage gives no tolerance",
        Recordings(TWO, TWO, stage={"default": None, "outputs": {"y": ZERO}}),
        hold("output.undeclared"),
        ("z",),
    ),
    Case(
        "outputs",
        "only the candidate has such an output",
        Recordings(SIX, TWO, stage={"default": None, "outputs": {"y": ZERO}}),
        hold("output.undeclared"),
        ("z", "candidate"),
    ),
    Case(
        "outputs",
        "both outputs have a tolerance",
        Recordings(TWO, TWO, stage={"default": None, "outputs": {"y": ZERO, "z": ZERO}}),
        RELEASE,
    ),
    Case(
        "outputs",
        "the stage names an output that no side has",
        Recordings(SIX, SIX, stage={"outputs": {"scores": ZERO}}),
        hold("output.missing"),
        ("scores",),
    ),
    Case(
        "outputs",
        "names that contain each other: score against score_1",
        Recordings(Recording(IDS, {"score": Y}), Recording(IDS, {"score_1": Y})),
        hold("output.missing"),
        ("score", "score_1"),
    ),
    Case(
        "outputs",
        "the same, mapped by the plan",
        Recordings(
            Recording(IDS, {"score": Y}),
            Recording(IDS, {"score_1": Y}),
            runner={"outputs": {"score": "score_1"}},
        ),
        RELEASE,
    ),
    Case(
        "outputs",
        "the plan maps an output that the recording doesn't have",
        Recordings(SIX, SIX, runner={"outputs": {"y": "why"}}),
        unjudged("runner.load_failed"),
        ("why",),
    ),
    Case(
        "outputs",
        "the plan maps two outputs to the same one",
        Recordings(TWO, TWO, runner={"outputs": {"y": "y", "z": "y"}}),
        unjudged(),
    ),
    Case(
        "outputs",
        "two outputs in another order of columns",
        Recordings(TWO, Recording(IDS, {"z": Y + 1, "y": Y})),
        RELEASE,
    ),
    Case(
        "outputs",
        "two outputs whose values are swapped between the names",
        Recordings(TWO, Recording(IDS, {"y": Y + 1, "z": Y})),
        EXCEEDED,
        ("'y'", "'z'"),
    ),
    Case(
        "outputs",
        "names that differ in case only",
        Recordings(SIX, Recording(IDS, {"Y": Y})),
        hold("output.missing"),
    ),
    Case(
        "outputs",
        "a function drops an output after its first batch",
        Functions(
            "def ref(g):\n    return {'y': g['x'], 'z': g['x']}\n\n"
            "def cand(g):\n"
            "    first = g['x'][0, 0] == 0\n"
            "    return {'y': g['x'], 'z': g['x']} if first else {'y': g['x']}\n",
            Y,
        ),
        hold("runner.error"),
        ("z",),
        (4, 5),
    ),
    Case(
        "outputs",
        "a function answers both outputs in every batch, in changing order",
        Functions(
            "def ref(g):\n    return {'y': g['x'], 'z': g['x'] + 1}\n\n"
            "def cand(g):\n"
            "    first = g['x'][0, 0] == 0\n"
            "    y, z = g['x'] + 0, g['x'] + 1\n"
            "    return {'y': y, 'z': z} if first else {'z': z, 'y': y}\n",
            Y,
            in_verify=True,
        ),
        RELEASE,
    ),
]


def judge_again(folder: Path, *, by: float) -> Any:
    """Hold at a tolerance, then compare the same files with the default options."""
    ref, cand = SIX.write(folder / "ref.arrow", "reference"), some(*range(6), by=by)
    path = cand.write(folder / "cand.arrow", "candidate")
    first = paritygate.compare(ref, path, atol=0.25, rtol=0.0, out=folder)
    assert first.verdict == ("hold" if by > 0.25 else "release")
    assert first.folder is not None
    kept = json.loads((first.folder / "summary.json").read_text(encoding="utf-8"))
    assert kept["verdict"] == first.verdict
    return paritygate.compare(ref, path, out=None)


def judge_shard_again(folder: Path, *, repair: bool) -> Any:
    """Run two functions, then run them again on the failing samples that the first run kept."""
    fault = "np.where(g['x'] == 4, g['x'] + FAULT, g['x'])"
    source = "import numpy as np\nFAULT = 1\n\ndef ref(g):\n    return {'y': g['x']}\n\n"
    source += f"def cand(g):\n    return {{'y': {fault}}}\n"
    (folder / "sides.py").write_text(source, encoding="utf-8")
    golden = write_pack(folder / "golden.arrow", IDS, {"x": Y})
    plan = {
        "golden": golden.name,
        "runners": {"ref": {"call": "sides:ref"}, "cand": {"call": "sides:cand"}},
        "stages": [{"name": "s", "reference": "ref", "candidate": "cand", "default": ZERO}],
    }
    held = paritygate.run(paritygate.load_plan(plan, folder=folder), out=folder / "runs")
    assert held.verdict == "hold"
    assert held.folder is not None
    if repair:
        (folder / "sides.py").write_text(source.replace("FAULT = 1", "FAULT = 0"), encoding="utf-8")
    again = {**plan, "golden": str(held.folder / "failures" / "s-00000.arrow")}
    return paritygate.run(paritygate.load_plan(again, folder=folder), out=None)


REJUDGED = [
    Case(
        "rejudged",
        "recordings that were held, judged again with default options",
        Call("compare", lambda folder: judge_again(folder, by=0.5)),
        EXCEEDED,
    ),
    Case(
        "rejudged",
        "recordings that were released at a tolerance: the default is exact",
        Call("compare", lambda folder: judge_again(folder, by=0.125)),
        EXCEEDED,
        ("atol 0",),
    ),
    Case(
        "rejudged",
        "the failing samples that a run kept, run again",
        Call("run", lambda folder: judge_shard_again(folder, repair=False)),
        EXCEEDED,
        (),
        (3,),
    ),
    Case(
        "rejudged",
        "the same after the candidate was mended",
        Call("run", lambda folder: judge_shard_again(folder, repair=True)),
        RELEASE,
    ),
]

IMAGE = np.arange(48, dtype=F32).reshape(2, 2, 3, 4)
SQUARE = np.arange(18, dtype=F32).reshape(2, 3, 3)
SHAPE = hold("shape.mismatch")


def _shapes(name: str, ref: Any, cand: Any, expected: Expected = SHAPE) -> Case:
    return Case("layout", name, Pair(ref, cand, 1e9, 0.0), expected)


LAYOUTS = [
    _shapes(
        "channels first against channels last, elements in equal order",
        IMAGE,
        IMAGE.reshape(2, 3, 4, 2),
    ),
    _shapes("the same, transposed", IMAGE, IMAGE.transpose(0, 2, 3, 1)),
    _shapes("flattened", IMAGE, IMAGE.reshape(2, 24)),
    _shapes("[n, 1] against [n]", Y[:, :1], Y[:, 0]),
    _shapes("[n, 1] against [n, 4], which would broadcast", Y[:, :1], np.repeat(Y[:, :1], 4, 1)),
    _shapes("[n, 1] against [n, 1, 1]", Y[:, :1], Y[:, :1, None]),
    _shapes("a class less", np.ones((3, 10), F32), np.ones((3, 9), F32)),
    _shapes("no elements against one", np.ones((3, 0), F32), np.ones((3, 1), F32)),
    Case("layout", "channels first on both sides", Pair(IMAGE, IMAGE), RELEASE),
    Case(
        "layout",
        "a square output, transposed",
        Pair(SQUARE, SQUARE.transpose(0, 2, 1), 1e-3, 1e-3),
        EXCEEDED,
    ),
    Case("layout", "a square output, as it is", Pair(SQUARE, SQUARE, 1e-3, 1e-3), RELEASE),
    Case(
        "layout",
        "the plan declares another shape than both sides have",
        Recordings(SIX, SIX, plan={"outputs": {"y": {"shape": ["batch", 3]}}}),
        SHAPE,
    ),
    Case(
        "layout",
        "the plan declares another dtype than both sides have",
        Recordings(SIX, SIX, plan={"outputs": {"y": {"dtype": "float64"}}}),
        hold("dtype.mismatch"),
    ),
    Case(
        "layout",
        "the plan declares the shape and dtype that both sides have",
        Recordings(SIX, SIX, plan={"outputs": {"y": {"shape": ["batch", 2], "dtype": "float32"}}}),
        RELEASE,
    ),
    Case(
        "layout",
        "a function changes the shape of its output after the first batch",
        Functions(
            "def ref(g):\n    return {'y': g['x']}\n\n"
            "def cand(g):\n    return {'y': g['x'] if g['x'][0, 0] == 0 else g['x'][:, :1]}\n",
            Y,
        ),
        hold("runner.error"),
        ("first batch",),
    ),
    Case(
        "layout",
        "a function answers a transposed view: values count, not memory order",
        Functions(
            "def ref(g):\n    return {'y': g['x'] + 0}\n\n"
            "def cand(g):\n    return {'y': np.asfortranarray(g['x'])}\n",
            Y,
            in_verify=True,
        ),
        RELEASE,
    ),
]

WIDE = np.arange(128, dtype=F32).reshape(64, 2)
PLAIN = "def ref(g):\n    return {'y': g['x'] + 0}\n\n"


def _batches(name: str, cand: str, expected: Expected, **more: Any) -> Case:
    ids = more.pop("ids", ())
    given = Functions(PLAIN + "def cand(g):\n" + cand, **{"x": WIDE, "batch_size": 64, **more})
    return Case("batch", name, given, expected, (), ids)


BATCHES = [
    _batches(
        "one row of a batch of 64 is off",
        "    return {'y': np.where(g['x'] == 74, g['x'] + 1, g['x'])}\n",
        EXCEEDED,
        ids=(37,),
    ),
    _batches(
        "no row of a batch of 64 is off", "    return {'y': g['x'] * 1}\n", RELEASE, in_verify=True
    ),
    _batches(
        "the last row of a padded tail is off",
        "    return {'y': np.where(g['x'] == 127, g['x'] + 1, g['x'])}\n",
        EXCEEDED,
        batch_size=60,
        ids=(63,),
    ),
    _batches(
        "only rows that pad a tail are off",
        "    y = g['x'].copy()\n    y[4:] += g['x'][0, 0] == 120\n    return {'y': y}\n",
        RELEASE,
        batch_size=60,
    ),
    _batches(
        "a tail is padded with its last sample: a function that refuses rows of zeros",
        "    if not g['x'].any(axis=1).all():\n        raise ValueError('zeros')\n"
        "    return {'y': g['x'] * 1}\n",
        RELEASE,
        batch_size=60,
    ),
    _batches(
        "one of 16 batches raises: its samples are named, the others judged",
        "    if g['x'][0, 0] == 24:\n        raise ValueError('broken')\n"
        "    return {'y': g['x']}\n",
        hold("runner.disagreement"),
        batch_size=4,
        ids=(12, 13, 14, 15),
    ),
    _batches(
        "errors of two rows that cancel in the mean of the batch",
        "    y = g['x'].copy()\n    y[3] += 1\n    y[4] -= 1\n    return {'y': y}\n",
        EXCEEDED,
        ids=(3, 4),
    ),
]

COUPLED = [
    Case(
        "coupling",
        "a function that answers otherwise in a batch of one: verified with batches of one and 64",
        Call(
            "verify",
            lambda _: paritygate.verify(
                lambda g: {"y": g["x"] + 0},
                lambda g: {"y": g["x"] + (len(g["x"]) == 1)},
                [{"x": WIDE}, {"x": WIDE[:1]}],
                atol=0.0,
                rtol=0.0,
            ),
        ),
        EXCEEDED,
        (),
        ("1/0",),
    ),
    Case(
        "coupling",
        "a function that answers otherwise in a batch of 7: verified with batches of 64, 7 and one",
        Call(
            "verify",
            lambda _: paritygate.verify(
                lambda g: {"y": g["x"] + 0},
                lambda g: {"y": g["x"] + (len(g["x"]) == 7)},
                [{"x": WIDE}, {"x": WIDE[:7]}, {"x": WIDE[:1]}],
                atol=0.0,
                rtol=0.0,
            ),
        ),
        EXCEEDED,
        ("7 of 72",),
    ),
    Case(
        "coupling",
        "a function that answers alike in batches of one, 7 and 64",
        Call(
            "verify",
            lambda _: paritygate.verify(
                lambda g: {"y": g["x"] + 0},
                lambda g: {"y": g["x"] * 1},
                [{"x": WIDE}, {"x": WIDE[:1]}, {"x": WIDE[:7]}],
                atol=0.0,
                rtol=0.0,
            ),
        ),
        RELEASE,
    ),
    Case(
        "coupling",
        "a function that subtracts the mean of its batch, in batches of 64 and of 16",
        Functions(
            PLAIN.replace("+ 0", "- g['x'].mean()")
            + "def cand(g):\n    return {'y': g['x'] - g['x'].mean()}\n",
            WIDE,
            plan={
                "runners": {
                    "ref": {"call": "sides:ref", "batch_size": 64},
                    "cand": {"call": "sides:cand", "batch_size": 16},
                }
            },
        ),
        EXCEEDED,
    ),
    Case(
        "coupling",
        "a tail of one sample is padded to the approved batch of 63",
        Functions(
            PLAIN + "def cand(g):\n    return {'y': g['x'] + (len(g['x']) == 1)}\n",
            WIDE,
            batch_size=63,
        ),
        RELEASE,
    ),
    Case(
        "coupling",
        "batches of one are approved: the same tail is run as one sample",
        Functions(
            PLAIN + "def cand(g):\n    return {'y': g['x'] + (len(g['x']) == 1)}\n",
            WIDE,
            batch_size=63,
            plan={"dims": {"batch": {"sizes": [1, 63]}}},
        ),
        hold("tolerance.exceeded", "runner.batch_coupled"),
        (),
        (63,),
    ),
    Case(
        "coupling",
        "a batch size that the plan doesn't approve",
        Functions(
            PLAIN + "def cand(g):\n    return {'y': g['x']}\n",
            WIDE,
            batch_size=32,
            plan={"dims": {"batch": {"sizes": [1, 64]}}},
        ),
        unjudged(),
        ("batch_size",),
    ),
    Case(
        "coupling",
        "a function that writes its answers into one array, again and again",
        Functions(
            "HELD = np.empty((4, 2), np.float32)\n\n"
            + PLAIN
            + "def cand(g):\n    HELD[:] = g['x']\n    return {'y': HELD}\n",
            WIDE,
        ),
        RELEASE,
    ),
    Case(
        "coupling",
        "both functions write into one array, the second one off by 1",
        Functions(
            "HELD = np.empty((64, 2), np.float32)\n\n"
            "def ref(g):\n    HELD[:] = g['x']\n    return {'y': HELD}\n\n"
            "def cand(g):\n    HELD[:] = g['x'] + 1\n    return {'y': HELD}\n",
            WIDE,
            batch_size=64,
            in_verify=True,
        ),
        EXCEEDED,
    ),
    Case(
        "coupling",
        "a function that changes its inputs in place, which the other side is given too",
        Functions(
            "def ref(g):\n    g['x'] += 1\n    return {'y': g['x']}\n\n"
            "def cand(g):\n    return {'y': g['x']}\n",
            WIDE,
        ),
        hold("runner.disagreement", "evidence.empty"),
        ("read-only",),
    ),
    Case(
        "coupling",
        "a function that remembers earlier batches",
        Functions(
            "SEEN = []\n\n"
            + PLAIN
            + "def cand(g):\n    SEEN.append(1)\n    return {'y': g['x'] + (len(SEEN) > 3)}\n",
            WIDE,
        ),
        EXCEEDED,
    ),
]

ROWS = [*NOTHING, *FEWER, *OUTPUTS, *REJUDGED, *LAYOUTS, *BATCHES, *COUPLED]
