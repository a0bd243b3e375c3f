"""Settings of torch that hold for the whole process: set while a runner needs them, then put back.

Two runners of one process must agree on them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


class Settings(Struct, frozen=True):
    """What is set.

    Attributes:
        threads: inside an operator; 0 lets torch decide.
        deterministic: deterministic algorithms alone.
        tf32: whether float32 may be calculated in TensorFloat-32 on a GPU.
        seed: of torch's generators.
    """

    threads: int = 1
    deterministic: bool = True
    tf32: bool = False
    seed: int = 0

    def told(self) -> tuple[str, ...]:
        """Each as `torch.NAME=VALUE`."""
        return tuple(f"torch.{name}={value}" for name, value in asdict(self).items())


class SettingsError(Exception):
    """Another runner of this process needs other settings; the text says which."""


class _InForce:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.settings: Settings | None = None
        self.holders = 0
        self.restore: Callable[[], None] = lambda: None


_in_force = _InForce()


def acquire(settings: Settings) -> Callable[[], None]:
    """Put settings in force until what is returned is called; calling it twice is once.

    Raises:
        SettingsError: others are in force for another runner.
    """
    with _in_force.lock:
        held = _in_force.settings
        if held is not None and held != settings:
            differ = sorted(set(held.told()) ^ set(settings.told()))
            raise SettingsError(", ".join(differ))
        if held is None:
            _in_force.restore = _apply(settings)
            _in_force.settings = settings
        _in_force.holders += 1
    released = threading.Event()

    def release() -> None:
        with _in_force.lock:
            if released.is_set():
                return
            released.set()
            _in_force.holders -= 1
            if not _in_force.holders:
                _in_force.settings = None
                _in_force.restore()

    return release


def differences(settings: Settings) -> tuple[str, ...]:
    """What isn't as it was set any more, each as `NAME: what was set -> what is in force`."""
    import torch

    found = {
        "intra_op_num_threads": (settings.threads or None, torch.get_num_threads()),
        "deterministic": (settings.deterministic, torch.are_deterministic_algorithms_enabled()),
        "deterministic (warn_only)": (
            False,
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        "float32_matmul_precision": (_precision(settings), torch.get_float32_matmul_precision()),
        "tf32": (settings.tf32, _tf32_of(torch.backends.cudnn)),
    }
    return tuple(
        f"{name}: {was} -> {now}"
        for name, (was, now) in found.items()
        if was is not None and now is not None and was != now
    )


def put_in_force(settings: Settings) -> None:
    """Set what a program may have changed; the number of threads is each thread's own."""
    import torch

    if settings.threads:
        torch.set_num_threads(settings.threads)
    torch.use_deterministic_algorithms(settings.deterministic)
    torch.backends.cudnn.deterministic = settings.deterministic
    torch.backends.cudnn.benchmark = False
    torch.set_float32_matmul_precision(_precision(settings))
    _set_tf32(torch.backends.cudnn, settings.tf32)


def _precision(settings: Settings) -> str:
    return "high" if settings.tf32 else "highest"


def _apply(settings: Settings) -> Callable[[], None]:
    """Set them; returns what puts back what was there."""
    import torch

    cudnn = torch.backends.cudnn
    had_threads = torch.get_num_threads()
    had_algorithms = torch.are_deterministic_algorithms_enabled()
    had_warnings = torch.is_deterministic_algorithms_warn_only_enabled()
    had_cudnn = cudnn.deterministic, cudnn.benchmark
    had_precision = torch.get_float32_matmul_precision()
    had_tf32 = _tf32_of(cudnn)
    had_random = torch.get_rng_state()
    if settings.deterministic:
        os.environ.setdefault(_CUBLAS, ":4096:8")
    put_in_force(settings)
    torch.manual_seed(settings.seed)

    def restore() -> None:
        torch.set_num_threads(had_threads)
        torch.use_deterministic_algorithms(had_algorithms, warn_only=had_warnings)
        cudnn.deterministic, cudnn.benchmark = had_cudnn
        torch.set_float32_matmul_precision(had_precision)
        if had_tf32 is not None:
            _set_tf32(cudnn, had_tf32)
        torch.set_rng_state(had_random)

    return restore


def _tf32_of(cudnn: Any) -> bool | None:
    with suppress(RuntimeError):  # set by the newer name alone
        return bool(cudnn.allow_tf32)
    return None


def _set_tf32(cudnn: Any, value: bool) -> None:
    with suppress(RuntimeError):
        cudnn.allow_tf32 = value


def describe_build(torch: Any) -> dict[str, object]:
    """What of the installed torch can change numbers, of JSON types."""
    return {
        "runtime": "torch",
        "runtime_version": str(torch.__version__),
        "runtime_build": " ".join(str(torch.__config__.show()).split()),
        "cpu_capability": str(torch.backends.cpu.get_cpu_capability()),
        "mkldnn": bool(torch.backends.mkldnn.is_available() and torch.backends.mkldnn.enabled),
        "default_dtype": str(torch.get_default_dtype()).removeprefix("torch."),
        "float32_matmul_precision": str(torch.get_float32_matmul_precision()),
    }
