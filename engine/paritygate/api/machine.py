"""Look at this machine: what a run needs and what it would use."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from paritygate.core.errors import ParityError

if TYPE_CHECKING:
    from paritygate.golden.check_words import Status


def doctor() -> list[tuple[Status, str, str]]:
    """Look at this machine: what a run needs and what it would use.

    Returns:
        Status, name and sentence of each thing looked at.
    """
    from paritygate.api.gpus import describe_gpus
    from paritygate.runners.environment import (
        describe_cpu,
        describe_environment,
        onnxruntime_distributions,
        onnxruntime_problem,
        package_versions,
    )

    lines: list[tuple[Status, str, str]] = []
    for name, version in package_versions().items():
        lines.append(("ok" if version else "note", name, version or "not installed"))
    builds = onnxruntime_distributions()
    problem = onnxruntime_problem(builds)
    if problem:
        lines.append(("fail", "onnxruntime build", problem))
    else:
        lines.append(("ok", "onnxruntime build", ", ".join(f"{n} {v}" for n, v in builds.items())))
        lines += _providers()
    lines += _plugins()
    lines.append(_kernels())
    lines += describe_gpus()
    lines.append(_staging())
    cpu = describe_cpu()
    lines.append(("note", "processor", f"{cpu['model']}, {cpu['usable_cores']} usable cores"))
    settings = describe_environment()["variables"]
    lines.append(("note", "settings", str(settings) if settings else "no thread settings"))
    return lines


def _staging() -> tuple[Status, str, str]:
    """Where models are copied to before they are loaded."""
    from paritygate.admission.place import VARIABLE, make_place, staging_root

    try:
        make_place().remove()
        root = staging_root()
    except ParityError as e:
        return "fail", "copies of models", str(e)
    free = shutil.disk_usage(root).free / (1 << 30)
    return "note", "copies of models", f"in {root}, {free:.1f} GiB free ({VARIABLE} names another)"


def _providers() -> Iterator[tuple[Status, str, str]]:
    try:
        import onnxruntime
    except ImportError as e:
        yield "fail", "providers", f"onnxruntime can't be imported: {e}"
        return
    from paritygate.runners.ort_doctor import probe_providers

    names = onnxruntime.get_available_providers()
    yield "ok", "providers", ", ".join(names)
    libraries = Path(onnxruntime.__file__).parent / "capi"
    for name, takes_nodes, sentence in probe_providers(names, libraries):
        yield "ok" if takes_nodes else "note", name, sentence


def _plugins() -> list[tuple[Status, str, str]]:
    from paritygate.runners.plugins import describe_plugins
    from paritygate.runners.registry import KINDS

    return [
        ("ok" if is_good else "note", f"runner kind {kind}", told)
        for is_good, kind, told in describe_plugins(KINDS)
    ]


def _kernels() -> tuple[Status, str, str]:
    """Compile and run one comparison, so that a broken compiler shows here."""
    import numpy as np

    from paritygate.comparison.elements import ElementComparer
    from paritygate.core.policy import Tolerance

    comparer = ElementComparer(Tolerance(), "float32", "float32", (2,), "gate")
    values = np.array([[0.0, 1.0]], np.float32)
    try:
        tally, _ = comparer.compare(values, values + np.float32(1), np.zeros(1, np.int64))
    except ParityError as e:
        return "fail", "kernels", str(e)
    right = tally.failing_elements == 2
    return (
        ("ok", "kernels", "compile and count right")
        if right
        else ("fail", "kernels", "count wrong")
    )
