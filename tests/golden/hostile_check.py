"""Damaged packs, digested and checked: `python -m tests.golden.hostile_check FOLDER SEED ROUNDS`.

Each is refused with a sentence, or read to its end.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path

from tests.golden.hostile import damage, damage_all, read_pack, rich_pack
from tests.packs import Container

import paritygate
from paritygate.core.errors import GoldenError


def main(seed: int, rounds: int, folder: Path, container: Container, codec: str | None) -> float:
    """Which share was refused."""
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
    return refused / rounds


if __name__ == "__main__":
    damage_all(Path(sys.argv[1]), partial(main, *map(int, sys.argv[2:])))
