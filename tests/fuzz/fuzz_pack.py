"""Fuzz the readers of packs: any bytes are refused, or read as pyarrow alone reads them.

`python -m tests.fuzz.fuzz_pack [-runs=N] [-max_total_time=S] FOUND CORPUS`: the arguments are those
of libFuzzer. What is found goes to the first folder, what ends the run to the file that it names.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

try:
    import atheris
except ModuleNotFoundError:  # there is no wheel for every Python
    from tests.golden.hostile import damage, outcome

    atheris = None
else:
    with atheris.instrument_imports(include=["paritygate.golden"]):
        from tests.golden.hostile import damage, outcome

LONGEST = 16_384


def main() -> None:
    """Run until the limits that the arguments set."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed"

        def read(content: bytes) -> None:
            path.write_bytes(content)
            outcome(path)

        if atheris is None:
            damage_at_random(read, sys.argv[1:])
            return
        atheris.Setup([*sys.argv, f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=4096"], read)
        atheris.Fuzz()


def damage_at_random(read: Callable[[bytes], None], arguments: list[str]) -> None:
    """The same without guidance by coverage: files of the corpus, damaged again and again."""
    limits = dict(text.split("=") for text in arguments if text.startswith("-"))
    seeds = [path.read_bytes() for path in sorted(Path(arguments[-1]).iterdir())]
    draw, started, runs = random.Random(limits.get("-seed")), time.monotonic(), 0
    while time.monotonic() - started < float(limits.get("-max_total_time", "inf")):
        if runs == int(limits.get("-runs", "-1")):
            break
        content = damage(draw.choice(seeds), draw)
        read(content)
        runs += 1
    print(f"Done {runs} runs", file=sys.stderr)


if __name__ == "__main__":
    main()
