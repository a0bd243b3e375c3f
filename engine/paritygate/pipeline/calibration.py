"""Golden samples that the candidate was calibrated on, where the plan names that pack."""

from __future__ import annotations

from typing import Any

from paritygate.core.plan import Plan
from paritygate.golden.overlap import Overlap, OverlapCheck


def open_calibration(plan: Plan) -> OverlapCheck | None:
    """The golden pack and the calibration pack, to be compared; None where the plan names none.

    Raises:
        GoldenError: as `OverlapCheck`.
    """
    if not plan.calibration:
        return None
    columns = {name: t.column for name, t in plan.table.inputs.items() if t.column is not None}
    return OverlapCheck(
        plan.golden, plan.calibration, plan.folder, id_column=plan.table.id, inputs=columns
    )


def describe_calibration(found: Overlap) -> dict[str, Any]:
    """What the summary says of it."""
    return {
        "files": [str(path) for path in found.files],
        "samples": found.samples,
        "overlap": found.count,
        "first": [{"id": ours, "calibration_id": theirs} for ours, theirs in found.first],
    }
