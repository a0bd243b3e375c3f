"""What a pack that is built says of the axes, channels and units of its tensors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from paritygate.core.errors import PlanError, Problem
from paritygate.core.problems import did_you_mean
from paritygate.golden.build import Take
from paritygate.golden.meaning import encode_meaning

Named = Mapping[str, Sequence[str] | str]


def with_meanings(
    takes: Sequence[Take], axes: Named | None, channels: Named | None, units: Named | None
) -> list[Take]:
    """The columns with what is said of them; channels of columns side by side are their names.

    Raises:
        PlanError: a name that no column has, or a text where names belong.
    """
    options = {"axes": axes or {}, "channels": channels or {}, "units": units or {}}
    known = {take.name: take for take in takes if take.is_tensor}
    problems = []
    for option, named in options.items():
        for name, value in named.items():
            if _column(name) not in known:
                hint = did_you_mean(_column(name), list(known))
                problems.append(Problem(f"--{option}", f"no tensor is called {name!r}{hint}"))
            elif isinstance(value, str) and option != "units":
                problems.append(Problem(f"--{option}", f"{name}: give a list of names"))
    if problems:
        raise PlanError(problems, "pack build")
    return [_with(take, options) for take in takes]


def parse_named(option: str, given: Sequence[str]) -> dict[str, list[str] | str]:
    """`NAME=A,B,C` of a command line; of units a single one stands for all channels.

    Raises:
        PlanError: it isn't that.
    """
    named: dict[str, list[str] | str] = {}
    for text in given:
        name, sign, names = text.partition("=")
        if not sign or not name or not names:
            told = f"{text!r}: write NAME=A,B,C"
            raise PlanError([Problem(f"--{option}", told)], "pack build")
        some = names.split(",")
        named[name] = names if option == "units" and len(some) == 1 else some
    return named


def _with(take: Take, options: Mapping[str, Named]) -> Take:
    if not take.is_tensor:
        return take
    given = {
        option: value
        for option, named in options.items()
        for name, value in named.items()
        if _column(name) == take.name
    }
    if take.is_stacked and "channels" not in given:
        given["channels"] = take.columns
    meaning = encode_meaning(given.get("axes"), given.get("channels"), given.get("units"))
    return replace(take, meaning=meaning)


def _column(name: str) -> str:
    return name if name.startswith(("in.", "out.")) else f"in.{name}"
