"""Damaged packs, digested and checked: `python -m tests.golden.hostile_check FOLDER CONTAINER ...`.

Further arguments: compression, seed, rounds. Each is refused with a sentence, or read to its end.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import cast

from tests.golden.hostile import damage, read_pack, rich_pack
from tests.packs import Container

import paritygate
from paritygate.core.errors import GoldenError


def main(folder: Path, container: Container, compression: str, seed: int, rounds: int) -> int:
    """How many were refused."""
    codec = None if compression == "none" else compression
    whole = rich_pack(folder / "whole.pack", container, codec)
    content, digest = whole.read_bytes(), paritygate.pack_digest(whole, cache=False)
    values = read_pack(whole)
    draw, path, refused = random.Random(seed), folder / "damaged.pack", 0
    for number in range(rounds):
        damaged = damage(content, draw)
        path.write_bytes(damaged)
        (folder / "last").write_text(f"{number} of seed {seed}")
        try:
            found = paritygate.check_pack(path, slices=["site", "kind"], against=whole)
            if found.summary["content_digest"] == digest:
                assert read_pack(path) == values
        except GoldenError as error:
            assert str(path) in str(error), error
            assert len(str(error)) < 1_500, error
            refused += 1
    return refused


if __name__ == "__main__":
    name, kind, codec, *numbers = sys.argv[1:]
    print(main(Path(name), cast(Container, kind), codec, *map(int, numbers)))
