"""Measure the comparison on a GPU, and print a table as `bench/run.py` does.

    python bench/gpu.py [--quick] [--only NAME]... [--out FOLDER] [--resume] [--record]

In an environment with numba-cuda (`make gpu` makes one), on a machine with a CUDA device; CuPy,
torch and onnxruntime are measured beside it where they are there. First comes the test that the
device counts what the CPU counts (`pytest -m gpu tests/gpu/compiled`): figures of kernels that it
finds wrong aren't recorded. What fails, what lacks a package and what there was no time left for
has a row that says so. No case starts later than `--within` seconds after the start (the last one
may end minutes later), the most important cases first.

`gpu.json` in the folder `--out` is whole after each case, also where the machine goes away:
`--resume` goes on from there, on such a machine and with the same options, as this does by itself
in a new process once a case has broken the device's context. `--from gpu.json --record` writes
bench/RESULTS.md from it on any machine, but not what `--quick`, `--only` or `--tiny` measured.
`--tiny` goes through all of it in Numba's simulator, where figures mean nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[1]
PLACES = [str(ROOT), str(ROOT / "engine"), str(ROOT / "frontends")]
sys.path[:0] = [place for place in PLACES if place not in sys.path]

if TYPE_CHECKING:
    from bench.gpu_report import Equality, Missing, Report
    from bench.gpu_sides import DeviceScale
    from bench.measure import Row

RESULTS = ROOT / "bench" / "RESULTS.md"
TESTS = (sys.executable, "-m", "pytest", "-v", "-W", "default", "-m", "gpu")
WORKERS = "4"  # of these tests, whose kernels take longer to compile than to run
WITHIN_S = 480.0
TESTS_S, LEAST_S = 180.0, 60.0  # that they may take, and that it is worth to begin them
SHOWN = 400  # characters of an error


def main(argv: Sequence[str] | None = None) -> int:
    """Measure what was asked for.

    Returns:
        0; 1 where more than allowed was taken, or the device counts wrong; 2 where nothing can be
        measured.
    """
    started = time.monotonic()
    args = _parser().parse_args(argv)
    if args.record and _options(args):
        print(
            "--record is of a whole measurement, without --only, --quick, --tiny", file=sys.stderr
        )
        return 2
    if args.read:
        from bench.gpu_report import Report

        report = Report.read(args.read)
        _show(report)
        return _ended(report, args)
    with tempfile.TemporaryDirectory(prefix="paritygate-bench-") as folder, ExitStack() as held:
        held.enter_context(mock.patch.dict(os.environ, _environment(args, folder)))
        problem = _what_lacks(args)
        if problem:
            print(problem, file=sys.stderr)
            return 2
        if args.is_simulated:
            held.enter_context(_simulator())
        report, is_broken = _measured(args, Path(folder), started + args.within)
    if is_broken:
        left = args.within - (time.monotonic() - started)
        given = sys.argv[1:] if argv is None else list(argv)
        again = [sys.executable, __file__, *given, "--resume", "--within", str(left)]
        sys.stdout.flush()
        os.execv(sys.executable, again)
    return _ended(report, args)


def _measured(args: Any, folder: Path, deadline: float) -> tuple[Report, bool]:
    """Check the kernels, then measure; what is there is printed and written at once.

    Returns:
        What was measured; and whether the device's context broke, so that a new process has to
        measure what is left.
    """
    from bench.gpu_cases import CASES
    from bench.gpu_sides import DeviceScale

    report = _begun(args)
    done = {row.label for row in report.rows}
    asked = [case for case in CASES if _is_asked(case, args)]
    scale = DeviceScale(folder, quick=args.quick or args.tiny, is_tiny=args.tiny)
    for case in asked:
        if done.issuperset(case.labels):
            continue
        _add(report, measure(case, scale, deadline))
        done.update(case.labels)
        left = [label for other in asked for label in other.labels if label not in done]
        report.write(args.out / "gpu.json", left)
        if not is_sound():
            return report, True
    seconds = deadline - time.monotonic()
    if report.equality.state == "unknown" and seconds > LEAST_S:
        report.equality = _equality(args, seconds)  # most of its kernels are compiled by now
        report.write(args.out / "gpu.json")
    return report, False


def _begun(args: Any) -> Report:
    """The report of a device whose kernels were tested, or of one that is measured on."""
    from bench.gpu_report import Report, describe_machine

    if args.resume:
        report = Report.read(args.out / "gpu.json")
        report.drop_cut()
    else:
        args.out.mkdir(parents=True, exist_ok=True)
        report = Report(_equality(args, TESTS_S), describe_machine(), options=_options(args))
    _show(report)
    return report


def _equality(args: Any, seconds: float) -> Equality:
    from bench.gpu_report import Equality

    if args.is_simulated:
        return Equality("unknown", "not tested here, in the simulator")
    several = ("-n", WORKERS) if importlib.util.find_spec("xdist") else ()
    return check_equality([*TESTS, *several, "tests/gpu/compiled"], seconds)


def measure(case: Any, scale: DeviceScale, deadline: float) -> list[Row | Missing]:
    """Rows of a case: figures, or why there are none."""
    from bench.gpu_libraries import LackingError
    from bench.gpu_report import Missing

    why = "no time was left"
    if time.monotonic() < deadline:
        try:
            return list(case.measure(scale))
        except LackingError as e:
            why = str(e)
        except Exception as e:
            why = f"{type(e).__name__}: {' '.join(str(e).split())[:SHOWN]}"
    return [Missing(label, why) for label in case.labels]


def is_sound() -> bool:
    """Whether the device still answers; what cases have kept of it is given back."""
    from bench.gpu_libraries import give_back

    from paritygate.gpu.device import cuda

    try:
        cuda.synchronize()
        give_back()
    except Exception:
        return False
    return True


def check_equality(command: Sequence[str], seconds: float) -> Equality:
    """Run the tests that the device counts what the CPU counts, for so long at most."""
    from bench.gpu_report import Equality

    ended = f"stopped after {seconds:.0f} s"
    with subprocess.Popen(
        command, cwd=ROOT, text=True, errors="replace", start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as tests:  # fmt: skip
        try:
            text, _ = tests.communicate(timeout=seconds)
            ended = f"ended with {tests.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(tests.pid, signal.SIGKILL)
            text, _ = tests.communicate()
    passed, failed = (text.count(f" {word}") for word in ("PASSED", "FAILED"))
    told = f"{passed} tests passed, {failed} failed"
    if ended == "ended with 0" and passed:
        return Equality("equal", told)
    print(text[-4000:], file=sys.stderr)
    return Equality("differ" if failed else "unknown", f"{told}, {ended}")


def _what_lacks(args: Any) -> str:
    """Why nothing can be measured here; empty where it can."""
    try:
        from bench.gpu_cases import CASES

        from paritygate.gpu.device import SIMULATED, cuda

        is_there = bool(cuda.is_available())
    except ImportError as e:
        return f"nothing was measured: {e}; `make gpu` makes an environment that has all of it"
    args.is_simulated = SIMULATED
    if importlib.util.find_spec("numba_cuda") is None:
        return "nothing was measured: numba-cuda isn't installed; `make gpu` makes an environment"
    if not is_there:
        return "there is no CUDA device here: nothing was measured"
    if args.tiny != SIMULATED:
        return "--tiny goes with the simulator alone: NUMBA_ENABLE_CUDASIM=1"
    if not any(_is_asked(case, args) for case in CASES):
        names = "\n".join(case.name for case in CASES)
        return f"--only {', '.join(args.only)}: in no name of these:\n{names}"
    return _why_not_on(args) if args.resume else ""


def _why_not_on(args: Any) -> str:
    """Why this measurement can't go on from the one before; empty where it can."""
    from bench.gpu_report import Report, describe_machine

    path = args.out / "gpu.json"
    if not path.exists():
        return f"--resume: there is no {path}"
    before = Report.read(path)
    if before.options != _options(args):
        told = " ".join(before.options) or "none of --quick, --tiny and --only"
        return f"--resume: {path} was measured with {told}: go on with the same options"
    here = describe_machine()
    others = [f"{k} {v!r}, here {here[k]!r}" for k, v in before.machine.items() if v != here[k]]
    return f"--resume: {path} is of another machine: {'; '.join(others)}" if others else ""


def _options(args: Any) -> tuple[str, ...]:
    """Those by which this isn't a whole measurement."""
    given = [name for name in ("quick", "tiny") if getattr(args, name)]
    return (*(f"--{name}" for name in given), *(f"--only {name!r}" for name in args.only or ()))


def _is_asked(case: Any, args: Any) -> bool:
    return not args.only or any(name in case.name for name in args.only)


def _simulator() -> AbstractContextManager[None]:
    from tests.gpu.simulator import quick_simulator

    return quick_simulator()


def _environment(args: Any, folder: str) -> dict[str, str]:
    """What processes find modules by; and kernels are kept in that folder."""
    caches = () if args.tiny else ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    places = [*PLACES, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {"PYTHONPATH": os.pathsep.join(places), **dict.fromkeys(caches, folder)}


def _show(report: Report) -> None:
    from bench.run import HEAD, line, rule

    print(report.head(), "", line(HEAD), rule(), sep="\n", flush=True)
    rows, report.rows = report.rows, []
    _add(report, rows)


def _add(report: Report, rows: Sequence[Row | Missing]) -> None:
    from bench.gpu_report import told

    for row in rows:
        print(told(row, report.date), flush=True)
    report.rows += rows


def _ended(report: Report, args: Any) -> int:
    """Record it where that was asked for, and say what is wrong."""
    from bench.gpu_report import with_report

    is_judged = not {"--quick", "--tiny"}.intersection(report.options)
    is_wrong = report.equality.state == "differ"
    if args.record and report.options:
        print(f"not recorded: measured with {' '.join(report.options)}", file=sys.stderr)
        return 2
    if args.record and report.equality.state != "equal":
        print(f"not recorded: {report.equality.told}", file=sys.stderr)
        return 1
    if args.record:
        text = RESULTS.read_text(encoding="utf-8")
        RESULTS.write_text(with_report(text, report), encoding="utf-8")
    for label in report.missed if is_judged else ():
        print(f"more than allowed: {label}")
    return 1 if is_wrong or (is_judged and report.missed) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure comparisons on a GPU.")
    parser.add_argument("--quick", action="store_true", help="once, 64 MiB a side; judges nothing")
    parser.add_argument("--tiny", action="store_true", help="in the simulator; judges nothing")
    parser.add_argument(
        "--only", metavar="NAME", action="append", help="cases whose name contains this, or another"
    )
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path(), help="where gpu.json goes"
    )
    parser.add_argument("--resume", action="store_true", help="go on from gpu.json in that folder")
    parser.add_argument("--record", action="store_true", help="also write bench/RESULTS.md")
    parser.add_argument(
        "--from", dest="read", metavar="JSON", type=Path, help="measured before, and elsewhere"
    )
    parser.add_argument(
        "--within", metavar="SECONDS", type=float, default=WITHIN_S, help="no case starts later"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
