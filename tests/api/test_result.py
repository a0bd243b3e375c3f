"""What a result says of itself."""

from __future__ import annotations

import numpy as np
import pytest
from tests.packs import write_pack

import paritygate


def test_what_could_not_be_judged_is_raised_by_a_public_name(tmp_path) -> None:
    with pytest.raises(paritygate.ParityError, match="no such file"):
        paritygate.run(tmp_path / "none.toml")


def test_control_characters_of_ids_reach_no_terminal(tmp_path) -> None:
    ids = ["a\x1b[2Jb", "line\nbreak", "plain"]
    y = np.arange(3, dtype=np.float32)
    write_pack(tmp_path / "ref.arrow", ids, outputs={"y": y})
    write_pack(tmp_path / "cand.arrow", ids, outputs={"y": y + 1})
    result = paritygate.compare(tmp_path / "ref.arrow", tmp_path / "cand.arrow", out=None)
    with pytest.raises(paritygate.HoldError) as held:
        result.raise_for_hold()
    for text in (result.explain(), str(held.value)):
        assert all(line.isprintable() for line in text.split("\n"))
        assert "a\\x1b[2Jb, line\\nbreak, plain" in text
    assert result.reasons[0].ids == tuple(ids)
