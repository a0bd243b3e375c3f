"""Rows of the conformance table: what is given, through which door, and what must come out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import paritygate
from paritygate.core.errors import ParityError

_CODE = re.compile(r"\b(?:tolerance|nonfinite)\.[a-z_]+\b")
_STRUCTURE = {
    "shapes differ": "shape.mismatch",
    "dtypes differ": "dtype.mismatch",
    "nothing was compared": "evidence.empty",
    "names differ": "output.missing",
}


@dataclass(frozen=True)
class Answer:
    """What came out of a door: verdict, codes, exit code, the text for the user, ids named."""

    verdict: str
    codes: frozenset[str]
    exit_code: int
    text: str
    ids: frozenset[int | str] = frozenset()


@dataclass(frozen=True)
class Expected:
    """What must come out: the verdict, exactly these reason codes, and this exit code."""

    verdict: str
    codes: tuple[str, ...]
    exit_code: int


RELEASE = Expected("release", (), 0)


def hold(*codes: str) -> Expected:
    """A hold for exactly these reasons."""
    return Expected("hold", codes, 1)


def unjudged(code: str = "policy.invalid") -> Expected:
    """A run that could not judge."""
    return Expected("unjudged", (code,), 2)


def incomplete(code: str) -> Expected:
    """All that was asked is clean, but the plan asks for more."""
    return Expected("incomplete", (code,), 3)


class Given(Protocol):
    """What a row is made of: it can be judged through one or several doors."""

    @property
    def doors(self) -> tuple[str, ...]:
        """Names of the doors that it fits through."""

    def judge(self, door: str, folder: Path) -> Answer:
        """Make the files in an empty folder and go through a door."""


OWN_IDS = ("verify", "assert_parity")


@dataclass(frozen=True)
class Case:
    """One row.

    Attributes:
        kind: key of the hazard, see `KINDS`.
        name: the case in plain words.
        given: how it is made.
        expected: verdict, codes, exit code.
        says: words that the text must hold: both values, the bound, counts.
        ids: sample ids that must be named, where the door keeps the pack's ids.
    """

    kind: str
    name: str
    given: Given
    expected: Expected
    says: tuple[str, ...] = ()
    ids: tuple[int | str, ...] = ()


@dataclass(frozen=True)
class Call:
    """Anything else that ends in a result or an error, through one named door."""

    door: str
    make: Callable[[Path], Any]

    @property
    def doors(self) -> tuple[str, ...]:
        return (self.door,)

    def judge(self, door: str, folder: Path) -> Answer:
        del door
        return answer(lambda: self.make(folder))


def answer(call: Callable[[], Any]) -> Answer:
    """Call a door that answers with a `RunResult` or raises a `ParityError`."""
    try:
        result = call()
    except ParityError as error:
        return Answer("unjudged", frozenset({error.code}), error.exit_code, str(error))
    if isinstance(result, Answer):
        return result
    codes = frozenset(reason.code for reason in result.reasons)
    ids = frozenset(i for reason in result.reasons for i in reason.ids)
    return Answer(result.verdict.value, codes, result.exit_code, result.explain(), ids)


def answer_assertion(ref: Any, cand: Any, rules: Mapping[str, Any]) -> Answer:
    """`assert_parity` in the words of a verdict."""
    try:
        paritygate.assert_parity(ref, cand, **rules)
    except ValueError as error:
        return Answer("unjudged", frozenset({"policy.invalid"}), 2, str(error))
    except AssertionError as error:
        text = str(error)
        codes = {code for words, code in _STRUCTURE.items() if words in text}
        return Answer("hold", frozenset(codes | set(_CODE.findall(text))), 1, text)
    return Answer("release", frozenset(), 0, "")
