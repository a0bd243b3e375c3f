"""Where every column is an output, one named `label` is one too, and what isn't one is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.packs import write_pack

from paritygate.golden.pack import open_pack


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Columns sample_id, in.x, label, site, score, raw.text."""
    return write_pack(
        tmp_path / "p.arrow",
        [1, 2],
        {"x": np.zeros(2)},
        label=[0, 1],
        slices={"site": ["s", "t"]},
        columns={"score": pa.array([0.5, 0.25]), "raw.text": pa.array(["a", "b"])},
    )


@pytest.mark.parametrize(
    ("options", "outputs", "skipped", "labels"),
    [
        ({"slices": ["site"]}, ["label", "score"], ["in.x", "raw.text"], []),
        ({"slices": ["site"], "label_column": None}, ["label", "score"], ["in.x", "raw.text"], []),
        (
            {"slices": ["site"], "extra_labels": ["label"]},
            ["score"],
            ["in.x", "raw.text"],
            ["label"],
        ),
        (
            {"not_outputs": ["site", "absent"]},
            ["label", "score"],
            ["in.x", "site", "raw.text"],
            [],
        ),
    ],
)
def test_columns_of_a_pack_without_prefixes(
    plain: Path, options: dict[str, Any], outputs: list[str], skipped: list[str], labels: list[str]
) -> None:
    pack = open_pack([plain], plain.parent, outputs_from="all", **options)
    assert list(pack.outputs) == outputs
    assert list(pack.skipped_columns) == skipped
    assert list(pack.labels_of) == labels


def test_only_a_pack_of_which_all_is_asked_skips(plain: Path) -> None:
    pack = open_pack([plain], plain.parent)
    assert pack.skipped_columns == ()
    assert list(pack.labels_of) == ["label"]


def test_with_prefixes_a_label_is_a_label_and_plain_columns_are_told(tmp_path: Path) -> None:
    path = write_pack(
        tmp_path / "p.arrow",
        [1, 2],
        outputs={"y": np.zeros(2)},
        label=[0, 1],
        columns={"score": pa.array([0.5, 0.25])},
    )
    pack = open_pack([path], tmp_path, outputs_from="all")
    assert list(pack.outputs) == ["y"]
    assert list(pack.labels_of) == ["label"]
    assert pack.skipped_columns == ("score",)


def test_an_index_that_pandas_wrote_is_no_output(tmp_path: Path) -> None:
    columns = {"y": pa.array([0.5, 0.25]), "__index_level_0__": pa.array([7, 3])}
    path = write_pack(tmp_path / "p.arrow", [1, 2], columns=columns)
    pack = open_pack([path], tmp_path, outputs_from="all")
    assert list(pack.outputs) == ["y"]
    assert pack.skipped_columns == ("__index_level_0__",)
