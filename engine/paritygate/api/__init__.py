"""The one door to the engine."""

from paritygate.api.arrays import assert_parity
from paritygate.api.building import build_from, build_pack
from paritygate.api.drafting import draft_contract
from paritygate.api.explaining import explain, find_latest
from paritygate.api.exporting import export_pack
from paritygate.api.importing import import_pack
from paritygate.api.inspecting import inspect_model
from paritygate.api.making import make_boundary, make_synthetic
from paritygate.api.packs import PackReport, check_pack, pack_digest
from paritygate.api.plans import load_plan, plan_from_models, toml_text
from paritygate.api.proving import prove_sample, verify_proof
from paritygate.api.recording import record
from paritygate.api.replaying import replay
from paritygate.api.result import HoldError, RunResult, unjudged_summary
from paritygate.api.runs import CheckReport, check, compare, doctor, run
from paritygate.api.schema import plan_schema
from paritygate.api.verify import verify
from paritygate.core.errors import ParityError
from paritygate.pipeline.record import RecordResult

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
