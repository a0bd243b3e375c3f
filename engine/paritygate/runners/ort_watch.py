"""Watches one runner: its first batch is observed elsewhere, its session looked at once more."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
from msgspec import Struct, field

from paritygate.admission.admit import Admitted
from paritygate.core.dtypes import HALF_BYTES, STRING, dtype_name
from paritygate.core.tensors import Array
from paritygate.runners.base import Finding
from paritygate.runners.ort_fates import describe_observed, exercised_operators
from paritygate.runners.ort_load import Loaded
from paritygate.runners.ort_observe import OBSERVER, Fed, Observation
from paritygate.runners.ort_options import Options
from paritygate.runners.ort_placement import (
    describe_assigned,
    find_unproven,
)
from paritygate.runners.ort_types import BRIDGED, element_type, packed
from paritygate.runners.ort_warnings import read_warnings
from paritygate.runners.ort_wiring import Wiring

MAX_FED_BYTES = 16 << 20
MAX_MODEL_BYTES = 1 << 30
PATIENCE_S = 30.0
WAIT_S = 40.0


class Concluded(Struct, frozen=True):
    """What was found of a runner's placement once its run is over."""

    facts: Mapping[str, object] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


class PlacementWatch:
    """Where a runner's nodes run, and what its runtime warned of."""

    def __init__(
        self,
        runner: str,
        options: Options,
        loaded: Loaded,
        model: Admitted,
        wiring: Wiring,
    ) -> None:
        self._runner = runner
        self._options = options
        self._in_force = loaded.in_force
        self._assigned = loaded.assigned
        self._nodes = model.nodes
        self._version = loaded.version
        self._request = loaded.request
        self._wiring = wiring
        self._load_s = loaded.load_s
        self._lock = threading.Lock()
        self._pending: Future[Observation] | None = None
        self._rows = 0
        self._concluded: Concluded | None = None
        self._why_not = _why_not(options, model)
        self.wants_batch = not self._why_not
        if self.wants_batch:
            OBSERVER.warm()

    @property
    def facts(self) -> Mapping[str, object]:
        """What is known so far, of JSON types."""
        if self._concluded is not None:
            return self._concluded.facts
        requested = [p.name for p in self._options.providers]
        allowed = self._options.allowed_fallback
        told = describe_assigned(requested, self._in_force, self._assigned, allowed)
        return {"placement": told}

    def take(self, arrays: Sequence[Array], size: int, started: float) -> None:
        """Have the first batch observed.

        Args:
            arrays: what was fed, in the order of the feeds.
            size: rows of the batch.
            started: when the run of it began, by `time.perf_counter`.
        """
        with self._lock:
            if not self.wants_batch:
                return
            self.wants_batch = False
        took = time.perf_counter() - started
        rows = self._rows_to_feed(arrays, size)
        fed = [
            self._fed(ours, theirs, array, rows, size)
            for (ours, theirs), array in zip(self._wiring.feeds, arrays, strict=True)
        ]
        fed += [_as_fed(theirs, array) for theirs, array in self._wiring.fixed.items()]
        deadline = PATIENCE_S + 10 * self._load_s + 20 * took
        self._rows = rows
        self._pending = OBSERVER.submit(self._request, fed, deadline)

    def _rows_to_feed(self, arrays: Sequence[Array], size: int) -> int:
        total = sum(array.nbytes for array in arrays)
        if self._wiring.fixed_batch is not None or total <= MAX_FED_BYTES:
            return size
        return max(1, size * MAX_FED_BYTES // total)

    def _fed(self, ours: str, theirs: str, array: Array, rows: int, size: int) -> Fed:
        axis = self._wiring.layout.inputs.get(ours, 0)
        if rows < size and axis is not None:
            array = array.take(np.arange(rows), axis)
        return _as_fed(theirs, array)

    def conclude(self, inference: Any) -> Concluded:
        """Wait for what was observed, and look at the session again; once a batch has run.

        Args:
            inference: the session that was judged.
        """
        with self._lock:
            self._concluded = self._conclude(inference)
            return self._concluded

    def _conclude(self, inference: Any) -> Concluded:
        requested = [p.name for p in self._options.providers]
        allowed = self._options.allowed_fallback
        after = tuple(inference.get_providers()) if inference is not None else self._in_force
        seen = self._observation()
        told = describe_assigned(requested, self._in_force, self._assigned, allowed)
        told["in_force_after"] = list(after)
        told["observed_rows"] = self._rows if seen.executed is not None else None
        told |= describe_observed(self._nodes, self._assigned, seen)
        findings = find_unproven(
            self._runner, requested, self._assigned, seen, self._in_force, after, allowed
        )
        if self._options.placement == "observed" and seen.executed is None:
            findings = (*findings, *_unseen(findings, seen))
        facts: dict[str, object] = {"placement": told}
        exercised = exercised_operators(self._nodes, self._assigned, seen, self._rows)
        if exercised is not None:
            facts["exercised"] = exercised
        if self._pending is not None and (seen.said or not seen.problem):
            facts["warnings"] = [w.to_json() for w in read_warnings(seen.said, seen.said_cut)]
        return Concluded(facts, findings)

    def _observation(self) -> Observation:
        if self._why_not:
            return Observation(problem=self._why_not)
        if self._pending is None:
            return Observation(problem="no batch was answered")
        try:
            seen = self._pending.result(WAIT_S)
        except TimeoutError:
            return Observation(problem=f"it took more than {WAIT_S:g} s longer than the run")
        unlike = self._unlike(seen)
        return Observation(said=seen.said, problem=unlike) if unlike else seen

    def _unlike(self, seen: Observation) -> str:
        """Why the other session shows nothing of the judged one; empty where it does."""
        if seen.executed is None:
            return ""
        if seen.version != self._version:
            return f"the other session is of onnxruntime {seen.version}, not {self._version}"
        here = Counter((n.provider, n.op_type) for n in self._assigned or ())
        there = Counter((provider, op) for provider, _, _, op in seen.assigned or ())
        if set(seen.in_force) != set(self._in_force) or (
            self._assigned is not None and here != there
        ):
            placed = ", ".join(
                f"{n} on {k}" for k, n in Counter(p for p, _ in there.elements()).items()
            )
            return f"the other session was placed otherwise ({placed or 'no nodes'})"
        return ""


def _unseen(findings: Sequence[Finding], seen: Observation) -> tuple[Finding, ...]:
    """What the plan demands to be observed and wasn't, unless it is said already."""
    if any(f.code == "placement.unobserved" for f in findings):
        return ()
    return (
        Finding(
            "placement.unobserved",
            'the plan says placement = "observed", but no batch was observed: '
            f"{seen.problem or 'nothing was run'}",
            'mend that, or say placement = "auto", which goes by what the session says of itself',
        ),
    )


def _why_not(options: Options, model: Admitted) -> str:
    """Why no second session is made; empty where one is."""
    if options.placement == "assigned":
        return 'the plan says placement = "assigned"'
    if options.session_options.get("ep.context_enable") == "1":
        return "the session writes a file (ep.context_enable), which another one would overwrite"
    size = model.identity.bytes + sum(file.bytes for file in model.identity.files)
    if options.placement == "auto" and size > MAX_MODEL_BYTES:
        return (
            f"the model has {size / (1 << 30):.1f} GiB, which a second session would hold once "
            'more (placement = "observed" makes one)'
        )
    return ""


def _as_fed(theirs: str, array: Array) -> Fed:
    dtype = dtype_name(array.dtype)
    shape = tuple(array.shape)
    if dtype == STRING:
        return Fed(theirs, shape, "object", 0, b"", tuple(array.reshape(-1).tolist()))
    contiguous = np.ascontiguousarray(array)
    if dtype in HALF_BYTES:
        contiguous = packed(contiguous)
    elif dtype in BRIDGED:
        contiguous = contiguous.view(f"u{contiguous.itemsize}")
    data = contiguous.tobytes()
    return Fed(theirs, shape, contiguous.dtype.str, element_type(dtype), data)
