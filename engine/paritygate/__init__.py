"""paritygate: the gate between "the export succeeded" and "it ships"."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paritygate.api import (
        CheckReport,
        HoldError,
        PackReport,
        ParityError,
        RecordResult,
        RunResult,
        assert_parity,
        build_from,
        build_pack,
        check,
        check_pack,
        compare,
        doctor,
        draft_contract,
        explain,
        export_pack,
        import_pack,
        inspect_model,
        load_plan,
        make_boundary,
        make_synthetic,
        pack_digest,
        plan_from_models,
        plan_schema,
        prove_sample,
        record,
        replay,
        run,
        toml_text,
        verify,
        verify_proof,
    )

__all__ = [
    "CheckReport",
    "HoldError",
    "PackReport",
    "ParityError",
    "RecordResult",
    "RunResult",
    "assert_parity",
    "build_from",
    "build_pack",
    "check",
    "check_pack",
    "compare",
    "doctor",
    "draft_contract",
    "explain",
    "export_pack",
    "import_pack",
    "inspect_model",
    "load_plan",
    "make_boundary",
    "make_synthetic",
    "pack_digest",
    "plan_from_models",
    "plan_schema",
    "prove_sample",
    "record",
    "replay",
    "run",
    "toml_text",
    "verify",
    "verify_proof",
]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Load the engine when one of its names is first used."""
    if name in __all__:
        return getattr(importlib.import_module("paritygate.api"), name)
    raise AttributeError(f"module 'paritygate' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
