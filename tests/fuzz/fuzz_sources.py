"""Fuzz what packs are made of, and proofs: any bytes are refused with a sentence, or read.

`python -m tests.fuzz.fuzz_sources TARGET [-runs=N] [-max_total_time=S] FOUND CORPUS`: `TARGET` is
one of `TARGETS`, the further arguments are those of libFuzzer, see `fuzz_pack`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

try:
    import atheris
except ModuleNotFoundError:  # there is no wheel for every Python
    from tests.fuzz.targets import TARGETS

    atheris = None
else:
    with atheris.instrument_imports(include=["paritygate.golden", "paritygate.api"]):
        from tests.fuzz.targets import TARGETS

from tests.fuzz.fuzz_pack import LONGEST, damage_at_random


def main() -> None:
    """Run one target until the limits that the arguments set."""
    target = TARGETS[sys.argv[1]]
    arguments = [sys.argv[0], *sys.argv[2:]]
    with tempfile.TemporaryDirectory() as folder:

        def read(content: bytes) -> None:
            target(Path(folder), content)

        if atheris is None:
            damage_at_random(read, arguments[1:])
            return
        limits = (f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=4096")
        atheris.Setup([*arguments, *limits], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
