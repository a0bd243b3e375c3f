"""What a worker is told to prepare, and what it says of the runner that it prepared."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from paritygate.core.digest import Watched
from paritygate.core.tensors import ColumnSpec, TensorSpec
from paritygate.runners.base import Finding, Limits, PrepareContext, Runner, RunnerSpec
from paritygate.runners.isolate.memory import Told, pack_array, unpack_array
from paritygate.runners.layout import Layout

# Kinds whose runtime is named in their own identity, so that other packages change nothing.
_KNOWN_RUNTIME = ("onnxruntime", "null", "torch")


class Order(Struct, frozen=True):
    """What to prepare; picklable, and read by any version of NumPy."""

    spec: RunnerSpec
    folder: Path
    inputs: Mapping[str, ColumnSpec]
    constants: Mapping[str, Told]
    check_models: bool
    id_column: str
    named_columns: tuple[str, ...]
    layout: Layout
    admitted: object

    @staticmethod
    def of(spec: RunnerSpec, context: PrepareContext, admitted: object) -> Order:
        """The order for a runner that is prepared against a context, from its admitted files."""
        return Order(
            spec,
            context.folder.absolute(),
            dict(context.inputs),
            {name: pack_array(array) for name, array in context.constants.items()},
            context.check_models,
            context.id_column,
            context.named_columns,
            context.layout,
            admitted,
        )

    def context(self) -> PrepareContext:
        """The context, in the worker; there is no pack."""
        return PrepareContext(
            self.folder,
            None,
            self.inputs,
            {name: unpack_array(told) for name, told in self.constants.items()},
            check_models=self.check_models,
            id_column=self.id_column,
            named_columns=self.named_columns,
            layout=self.layout,
            admitted=self.admitted,
        )


class Ready(Struct, frozen=True):
    """What a prepared runner is, as `Runner` has it."""

    limits: Limits
    inputs: Mapping[str, TensorSpec] | None
    outputs: Mapping[str, TensorSpec] | None
    identity: str
    source: str
    facts: Mapping[str, object]
    findings: tuple[Finding, ...]
    watched: tuple[Watched, ...]
    constant_names: frozenset[str] | None
    layout: Layout
    build: Mapping[str, Any]

    @staticmethod
    def of(runner: Runner) -> Ready:
        """What is known of it once it is prepared."""
        return Ready(
            runner.limits,
            runner.inputs,
            runner.outputs,
            runner.identity,
            runner.source,
            dict(runner.facts),
            runner.findings,
            runner.watched,
            runner.constant_names,
            runner.layout,
            describe_build(runner.kind),
        )


def describe_build(kind: str) -> dict[str, Any]:
    """The interpreter and packages that this process runs a kind with."""
    import numpy as np

    told: dict[str, Any] = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "executable": sys.executable,
        "numpy": np.__version__,
    }
    if kind not in _KNOWN_RUNTIME:
        found = importlib.metadata.distributions()
        told["packages"] = sorted({f"{d.metadata['Name']} {d.version}" for d in found})
    return told
