"""The one door to the engine; each of its rooms is imported when one of its names is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paritygate.api.arrays import assert_parity
    from paritygate.api.building import build_from, build_pack
    from paritygate.api.checking import CheckReport, check
    from paritygate.api.drafting import draft_contract
    from paritygate.api.explaining import explain, find_latest
    from paritygate.api.exporting import export_pack
    from paritygate.api.importing import import_pack
    from paritygate.api.inspecting import inspect_model
    from paritygate.api.machine import doctor
    from paritygate.api.making import make_boundary, make_synthetic
    from paritygate.api.packs import PackReport, check_pack, pack_digest
    from paritygate.api.plans import load_plan, plan_from_models, toml_text
    from paritygate.api.proving import prove_sample, verify_proof
    from paritygate.api.recording import record
    from paritygate.api.replaying import replay
    from paritygate.api.result import HoldError, RunResult, unjudged_summary
    from paritygate.api.runs import compare, run
    from paritygate.api.schema import plan_schema
    from paritygate.api.verifying import verify
    from paritygate.core.errors import ParityError
    from paritygate.pipeline.record import RecordResult

_ROOMS = {
    "paritygate.api.arrays": ("assert_parity",),
    "paritygate.api.building": ("build_from", "build_pack"),
    "paritygate.api.checking": ("CheckReport", "check"),
    "paritygate.api.drafting": ("draft_contract",),
    "paritygate.api.explaining": ("explain", "find_latest"),
    "paritygate.api.exporting": ("export_pack",),
    "paritygate.api.importing": ("import_pack",),
    "paritygate.api.inspecting": ("inspect_model",),
    "paritygate.api.machine": ("doctor",),
    "paritygate.api.making": ("make_boundary", "make_synthetic"),
    "paritygate.api.packs": ("PackReport", "check_pack", "pack_digest"),
    "paritygate.api.plans": ("load_plan", "plan_from_models", "toml_text"),
    "paritygate.api.proving": ("prove_sample", "verify_proof"),
    "paritygate.api.recording": ("record",),
    "paritygate.api.replaying": ("replay",),
    "paritygate.api.result": ("HoldError", "RunResult", "unjudged_summary"),
    "paritygate.api.runs": ("compare", "run"),
    "paritygate.api.schema": ("plan_schema",),
    "paritygate.api.verifying": ("verify",),
    "paritygate.core.errors": ("ParityError",),
    "paritygate.pipeline.record": ("RecordResult",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}

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
    "find_latest",
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
    "unjudged_summary",
    "verify",
    "verify_proof",
]


def __getattr__(name: str) -> Any:
    """Import the room that a name is in."""
    if name not in _ROOM_OF:
        raise AttributeError(f"module 'paritygate.api' has no attribute {name!r}")
    found = getattr(importlib.import_module(_ROOM_OF[name]), name)
    globals()[name] = found  # also in place of a room of the same name
    return found
