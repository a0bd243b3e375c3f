"""Fuzz what packs are made of, and proofs: any bytes are refused with a sentence, or read.

`python -m tests.fuzz.fuzz_sources TARGET [-runs=N] [-max_total_time=S] FOUND CORPUS`: `TARGET` is
one of `TARGETS`, the further arguments are those of libFuzzer, see `fuzz_pack`. `all` runs one
target after the other, each in a fork, so that the engine is instrumented once; then the folders
have one folder a target.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

try:
    import atheris
except ModuleNotFoundError:  # there is no wheel for every Python
    from tests.fuzz.targets import TARGETS

    atheris = None
else:
    with atheris.instrument_imports(include=["paritygate.golden", "paritygate.api"]):
        from tests.fuzz.targets import TARGETS

from tests.forks import in_fork
from tests.fuzz.fuzz_pack import LONGEST, damage_at_random


def main() -> int:
    """Run what the arguments name until the limits that they set; 0: nothing was found."""
    name, *options, found, corpus = sys.argv[1:]
    if name != "all":
        fuzz(name, [*options, found, corpus])
        return 0
    codes = []
    for each in TARGETS:
        arguments = [*options, f"{found}/{each}", f"{corpus}/{each}"]
        codes.append(in_fork(partial(fuzz, each, arguments)))
        print(f"{each} ended with {codes[-1]}", file=sys.stderr, flush=True)
    return int(any(codes))


def fuzz(name: str, arguments: list[str]) -> None:
    """Run one target; libFuzzer ends the process itself."""
    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:

        def read(content: bytes) -> None:
            target(Path(folder), content)

        if atheris is None:
            damage_at_random(read, arguments)
            return
        limits = (f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=4096")
        atheris.Setup([sys.argv[0], *arguments, *limits], read)
        atheris.Fuzz()


if __name__ == "__main__":
    sys.exit(main())
