"""When two functions of modules are the same thing: by what they are, not by what they are called.

A function is known by its module's source and the name that it was defined under there. So another
name for it, or a copy of its file beside it, is the same thing.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from paritygate.core.digest import sha256_file

PLAN_MODULE = "_paritygate_plan_"


def identify_function(module: ModuleType, attribute: str, function: object) -> list[str]:
    """What makes a function the same thing as another, as text.

    Args:
        module: where it was looked up.
        attribute: what it is called there, `name` or `Class.name`.
        function: what was found.
    """
    name = _resolvable_name(function)
    if name is None:
        name = _first_name(module, attribute)
    else:
        module = sys.modules[function.__module__]
    is_plans = module.__name__.startswith(PLAN_MODULE)
    package = "" if is_plans else module.__name__.rpartition(".")[0]
    kind = "file of the plan" if is_plans else "module"
    return [kind, package, digest_of_module(module) or module.__name__, name]


def digest_of_module(module: ModuleType) -> str | None:
    """SHA-256 of a module's file; None where it has none."""
    file = getattr(module, "__file__", None)
    return sha256_file(Path(file), cache=False) if file and Path(file).is_file() else None


def _resolvable_name(function: Any) -> str | None:
    """The name under which the module that defines a function still has it; else None."""
    with suppress(Exception):  # attributes of a user's objects may raise anything
        name = function.__qualname__
        found: Any = sys.modules[function.__module__]
        for part in name.split("."):
            found = getattr(found, part)
        if found is function and isinstance(name, str):
            return name
    return None


def _first_name(module: ModuleType, attribute: str) -> str:
    """An attribute by the first of its object's names in the module."""
    head, dot, rest = attribute.partition(".")
    there = vars(module)
    wanted = there.get(head)
    first = next((n for n, value in there.items() if value is wanted), head)
    return first + dot + rest
