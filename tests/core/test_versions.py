"""Releases of ONNX Runtime and their limits."""

from __future__ import annotations

import itertools

import pytest

from paritygate.core.versions import RUNTIMES, Target
from paritygate.runners.ort_support import installed_support


def test_the_installed_release_is_as_the_table_says() -> None:
    support = installed_support()
    assert support is not None
    release = support.version.rpartition(".")[0]
    if release not in RUNTIMES:
        pytest.skip(f"{release} is newer than the table")
    assert RUNTIMES[release] == (support.max_opset, support.max_ml_opset, support.max_ir)


def test_limits_never_fall_with_newer_releases() -> None:
    limits = list(RUNTIMES.values())
    for older, newer in itertools.pairwise(limits):
        assert all(a <= b for a, b in zip(older, newer, strict=True))


@pytest.mark.parametrize("release", ["1.17", "1.17.3"])
def test_a_release_and_its_patches(release: str) -> None:
    assert Target.of(release) == Target(f"onnxruntime {release}", 20, 4, 9)


def test_the_lower_limit_counts() -> None:
    assert Target.of("1.17", max_opset=25, max_ir=8) == Target("onnxruntime 1.17", 20, 4, 8)


@pytest.mark.parametrize("release", ["1.14", "1.99", "0.1", "1", "latest", "1.17-rc1", ""])
def test_other_releases_are_refused(release: str) -> None:
    with pytest.raises(ValueError, match="say max_opset and max_ir instead"):
        Target.of(release)


def test_nothing_is_no_target() -> None:
    with pytest.raises(ValueError, match="say onnxruntime"):
        Target.of()


@pytest.mark.parametrize(
    ("ir_version", "opsets", "told"),
    [
        (9, {"ai.onnx": 20, "ai.onnx.ml": 4}, []),
        (10, {"ai.onnx": 20}, ["IR version 10"]),
        (9, {"ai.onnx": 21}, ["opset 21"]),
        (9, {"ai.onnx": 20, "ai.onnx.ml": 5}, ["opset of ai.onnx.ml 5"]),
        (99, {"ai.onnx": 99, "com.microsoft": 99}, ["IR version 99", "opset 99"]),
    ],
)
def test_what_is_beyond(ir_version: int, opsets: dict[str, int], told: list[str]) -> None:
    found = list(Target.of("1.17").beyond(ir_version, opsets))
    assert len(found) == len(told)
    assert all(words in text for words, text in zip(told, found, strict=True))
