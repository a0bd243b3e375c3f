"""Fuzz the look into models: any bytes are refused with a sentence, or described.

`python -m tests.fuzz.fuzz_inspect [-runs=N] [-max_total_time=S] FOUND MODELS`: the arguments are
those of libFuzzer, as for `fuzz_pack`. onnx.checker isn't part of it: it runs in a child process,
since it may crash.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.fuzz.fuzz_pack import damage_at_random

try:
    import atheris
except ModuleNotFoundError:  # there is no wheel for every Python
    from tests.admission.hostile import outcome

    atheris = None
else:
    with atheris.instrument_imports(include=["paritygate.admission"]):
        from tests.admission.hostile import outcome

LONGEST = 8_192


def main() -> None:
    """Run until the limits that the arguments set."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fuzzed"

        def look(content: bytes) -> None:
            path.write_bytes(content)
            outcome(path)

        if atheris is None:
            damage_at_random(look, sys.argv[1:])
            return
        atheris.Setup([*sys.argv, f"-max_len={LONGEST}", "-timeout=20", "-rss_limit_mb=4096"], look)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
