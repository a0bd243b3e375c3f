"""Every kernel of the GPU as PTX, on a machine that has none; and what it takes of a device.

`python -m tests.gpu.compiled.ptx` in `.venv-gpu` writes `registers.json` anew.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from numba import cuda, typeof, types
from tests.gpu.compiled import deciding

from paritygate.gpu import (
    checksum,
    failing,
    fold,
    gather,
    measures,
    ranks,
    scan,
    slab,
    sums,
    whole,
    widen,
)
from paritygate.kernels.elements import Rule

RECORD = Path(__file__).with_name("registers.json")
CHIPS = {"sm_80": (8, 0), "sm_90": (9, 0)}
DTYPES = {"float32": types.float32, "float64": types.float64}
LONG = {"int64": types.int64, "uint64": types.uint64}

_INTS, _DOUBLES = types.int64[::1], types.float64[::1]
_ALL_INTS, _ALL_DOUBLES = types.int64[:, ::1], types.float64[:, ::1]
_BYTES, _INT = types.uint8[::1], types.int64
_RULE = typeof(Rule(1.0, 0.5, 2.0, 0, 0, 3.0, (1, 2, 4, 8, 16)))
_FORM = typeof(widen.Form(0x7F, 0x77, -1, -1, 42, 0.5))
_STEPS = typeof(measures.Steps(0, 23, -126, 1, 1, 1))
_DISTANCES, _ALL_DISTANCES = types.uint64[::1], types.uint64[:, ::1]
_BATCH = typeof(scan.Batch(1, 0, 1, 1, 1.0, 0.5, 2.0))


def kernels() -> dict[str, tuple[Any, Callable[[Any], tuple[Any, ...]]]]:
    """Each kernel, and the types of its arguments where values are of a dtype."""
    return {
        "scan": (
            scan.scan,
            lambda x: (
                x, x, _INTS, _BATCH, _INTS, _ALL_INTS, _DOUBLES, _ALL_DOUBLES, _ALL_INTS, _BYTES,
            ),
        ),
        "fold": (
            fold.fold,
            lambda x: (
                x, x, _INTS, _BATCH, _ALL_DOUBLES, _ALL_INTS, _INT, _DOUBLES, _ALL_INTS,
                _ALL_DOUBLES,
            ),
        ),
        "keep_failing": (
            failing.keep_failing,
            lambda x: (
                x, x, _INT, _RULE, _INT, _BYTES, _INT, _INTS, _ALL_INTS,
            ),
        ),
        "measure": (
            measures.measure,
            lambda x: (
                x, x, _INTS, _BATCH, _STEPS, _INTS, _ALL_INTS, _INTS, _ALL_DISTANCES, _ALL_INTS,
            ),
        ),
        "rank": (
            ranks.rank,
            lambda x: (x, x, _INTS, _BATCH, _INT, _ALL_INTS, _INTS, _ALL_DOUBLES, _ALL_INTS),
        ),
        "fold_full": (
            fold.fold_full,
            lambda x: (
                x, x, _INTS, _BATCH, _ALL_DISTANCES, _ALL_INTS, _ALL_DOUBLES, _ALL_INTS, _INT,
                _DISTANCES, _ALL_INTS, _ALL_DOUBLES, _DOUBLES, _INTS,
            ),
        ),
        "gather_rows": (gather.gather_rows, lambda x: (x, _INT, _INTS, x, _INTS)),
        "widen_bits": (widen.widen_bits, lambda x: (types.uint16[::1], _FORM, x)),
        "widen_flags": (widen.widen_flags, lambda x: (_BYTES, x)),
        "count_ends": (
            widen.count_ends, lambda x: (x, types.float64, types.float64, _INTS, _INT),
        ),
        "scan_whole": (
            whole.scan_whole,
            lambda x: (
                x, x, _INTS, _BATCH, _INTS, _ALL_INTS, _INTS, _ALL_INTS, _ALL_INTS, _BYTES,
            ),
        ),
        "fold_whole": (
            fold.fold,
            lambda x: (
                x, x, _INTS, _BATCH, _ALL_INTS, _ALL_INTS, _INT, _INTS, _ALL_INTS,
                types.Array(x.dtype, 2, "C"),
            ),
        ),
        "keep_failing_whole": (
            failing.keep_failing_whole,
            lambda x: (
                x, x, _INT, _RULE, _INT, _BYTES, _INT, _INTS, _ALL_INTS,
            ),
        ),
        "carry": (sums.carry, lambda x: (_ALL_INTS,)),
        "add_words": (
            checksum.add_words, lambda x: (types.uint64[::1], _INT, _ALL_INTS, _INT),
        ),
        "write_number": (slab.write_number, lambda x: (_INTS, _INT)),
        **deciding.kernels(),
    }  # fmt: skip


def cases() -> list[tuple[str, str]]:
    """Each kernel with each dtype of values that it is compiled for."""
    return [
        (name, dtype)
        for name in kernels()
        for dtype in (LONG if name.endswith("_whole") else DTYPES)
    ]


def compiled(name: str, dtype: str, chip: str) -> str:
    """The PTX of a kernel where values are of a dtype."""
    function, arguments = kernels()[name]
    return ptx_of(function, arguments((DTYPES | LONG)[dtype][::1]), chip)


def ptx_of(function: Any, arguments: tuple[Any, ...], chip: str) -> str:
    """The PTX of a kernel; the functions that it calls ask for the device, which is made up."""
    plain = getattr(function, "py_func", function)
    device = SimpleNamespace(compute_capability=CHIPS[chip])
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=device):
        text, _ = cuda.compile_ptx(plain, types.void(*arguments), cc=CHIPS[chip])
    return str(text)


def taken_by(ptx: str, chip: str, folder: Path) -> dict[str, int]:
    """Registers a thread, bytes that are spilled and bytes of shared memory, as ptxas says."""
    source = folder / "kernel.ptx"
    source.write_text(ptx)
    command = [str(ptxas()), f"-arch={chip}", "-v", "-o", str(folder / "kernel.cubin"), str(source)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", said)
    registers, shared = (
        re.search(r"Used (\d+) registers", said),
        re.search(r"(\d+) bytes smem", said),
    )
    assert found is not None, said
    assert registers is not None, said
    return {
        "registers": int(registers[1]),
        "spilled": int(found[1]) + int(found[2]),
        "shared": int(shared[1]) if shared else 0,
    }


def ptxas() -> Path:
    """The assembler of the distribution `nvidia-cuda-nvcc` in this environment."""
    import nvidia

    return next(
        path for folder in nvidia.__path__ for path in sorted(Path(folder).glob("*/bin/ptxas"))
    )


def main() -> None:
    import tempfile

    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in cases():
            for chip in CHIPS:
                ptx = compiled(name, dtype, chip)
                found[f"{name} {dtype} {chip}"] = taken_by(ptx, chip, Path(folder))
    RECORD.write_text(json.dumps(found, indent=2) + "\n")
    sys.stdout.write(RECORD.read_text())


if __name__ == "__main__":
    main()
