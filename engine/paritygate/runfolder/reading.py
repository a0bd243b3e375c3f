"""Read a finished run folder back: its summary, its failing samples, their tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from paritygate.core.digest import sha256_file
from paritygate.core.errors import GoldenError, UnreadableRunError
from paritygate.core.plan import Plan, parse_plan, read_plan
from paritygate.core.tensors import Array
from paritygate.core.text import clean
from paritygate.golden.pack import GoldenPack, open_pack
from paritygate.runfolder.files import TENSORS, SampleId, is_scalar, read_columns, rows_of
from paritygate.runfolder.folder import PARTIAL
from paritygate.runfolder.saved_plan import PLAN_FILE
from paritygate.runfolder.summary import read_summary
from paritygate.runners.registry import parse_runner

_DECISION = "decision."
_MEND = "restore the folder from where it was written, or run again"


class FailedSample(Struct, frozen=True):
    """One failing sample of one stage.

    Attributes:
        id: of the sample.
        stage: name of the stage.
        values: scalar columns of the shard, or of the ids file, by name.
        place: shard and row in it; None where the shard was cut and only the id is known.
    """

    id: SampleId
    stage: str
    values: Mapping[str, Any]
    place: tuple[Path, int] | None

    @property
    def row(self) -> int:
        """Row over all golden files."""
        return int(self.values["row"])

    @property
    def rules(self) -> list[str]:
        """The rules that it broke."""
        return list(self.values.get("rules") or [])

    @property
    def decisions(self) -> dict[str, dict[str, Any]]:
        """Decision -> what is known of it: `ref`, `cand` and, from a shard, `margin`."""
        found: dict[str, dict[str, Any]] = {}
        for column, value in self.values.items():
            name, dot, part = column.removeprefix(_DECISION).rpartition(".")
            if column.startswith(_DECISION) and dot:
                found.setdefault(name, {})[part] = value
        return found


class Tensors(Struct, frozen=True):
    """What a shard keeps of one sample, by name; a tensor that it lacks isn't there."""

    inputs: Mapping[str, Array] = field(default_factory=dict)
    ref: Mapping[str, Array] = field(default_factory=dict)
    cand: Mapping[str, Array] = field(default_factory=dict)


class FinishedRun:
    """A run folder, read back; files are opened when they are asked for.

    Attributes:
        folder: the run folder.
        summary: as in `summary.json`.
    """

    def __init__(self, folder: Path) -> None:
        """Read the summary.

        Raises:
            UnreadableRunError: it isn't a finished run, or of a newer schema.
        """
        if folder.name.endswith(PARTIAL):
            raise UnreadableRunError(f"{folder}: is an unfinished run; name a finished one")
        self.folder = folder if folder.is_dir() else folder.parent
        self.summary = read_summary(folder)
        problem = _first_fault(self.summary)
        if problem:
            raise UnreadableRunError(f"{folder}: isn't a summary of a run ({problem})")
        self._packs: dict[Path, dict[str, GoldenPack]] = {}
        self._tables: dict[Path, pa.Table] = {}

    @cached_property
    def plan(self) -> Plan:
        """The plan as it was run.

        Raises:
            UnreadableRunError: the folder has none, as those of older versions, or another one than
                its summary tells of.
            PlanError: it isn't valid.
        """
        path = self.folder / PLAN_FILE
        if not path.is_file():
            raise UnreadableRunError(
                f"{path}: no such file; run folders of older versions have no plan: run again"
            )
        digest = self.summary["plan"].get("file_sha256", "")  # older versions didn't say
        if digest and digest != sha256_file(path, cache=False):
            raise UnreadableRunError(f"{path}: isn't the plan that was run (its digest); {_MEND}")
        base = self.summary["plan"].get("folder")
        plan = parse_plan(
            read_plan(path),
            Path(base) if isinstance(base, str) else self.folder,
            str(path),
            str(self.summary["plan"].get("name", "run")),
            parse_runner,
        )
        planned = [stage.name for stage in plan.stages]
        if other := [s["name"] for s in self.stages if s["name"] not in planned]:
            raise UnreadableRunError(
                f"{self.folder}: its summary has a stage {clean(other[0])!r}, which its plan "
                f"doesn't have; {_MEND}"
            )
        return plan

    @property
    def stages(self) -> list[dict[str, Any]]:
        """The summaries of its stages, in plan order."""
        return list(self.summary["stages"])

    def stage(self, name: str) -> dict[str, Any]:
        """The summary of one stage.

        Raises:
            UnreadableRunError: it has no such stage.
        """
        for stage in self.stages:
            if stage["name"] == name:
                return stage
        known = ", ".join(str(s["name"]) for s in self.stages)
        raise UnreadableRunError(
            f"{self.folder}: no stage is named {clean(name)!r}; known: {known}"
        )

    def shards(self, stage: str) -> list[Path]:
        """The failure shards of a stage."""
        failures = self.stage(stage).get("failures") or {}
        return [self.folder / str(name) for name in failures.get("shards") or []]

    def kept(self, stage: str) -> list[FailedSample]:
        """The failing samples of a stage that were kept whole, in pack order.

        Raises:
            GoldenError: a shard that can't be read.
        """
        found = []
        for path in self.shards(stage):
            rows = self._scalars(path).to_pylist()
            found += [
                FailedSample(values["sample_id"], stage, values, (path, at))
                for at, values in enumerate(rows)
            ]
        return found

    def find(self, sample_id: SampleId) -> list[FailedSample]:
        """A sample in each stage in which it failed, kept whole or known by its id alone.

        Raises:
            GoldenError: a file that can't be read.
        """
        return [f for stage in self.stages for f in self._find(stage, sample_id)]

    def _find(self, stage: Mapping[str, Any], sample_id: SampleId) -> Iterator[FailedSample]:
        name = str(stage["name"])
        for path in self.shards(name):
            rows = rows_of(self._scalars(path), sample_id)
            if rows:
                at, values = rows[0]
                yield FailedSample(sample_id, name, values, (path, at))
                return
        ids = (stage.get("failures") or {}).get("ids")
        if ids:
            for _, values in rows_of(self._scalars(self.folder / str(ids)), sample_id):
                yield FailedSample(sample_id, name, values, None)

    def _scalars(self, path: Path) -> pa.Table:
        if path not in self._tables:
            self._tables[path] = read_columns(path, is_scalar)
        return self._tables[path]

    def rejected(self, sample_id: SampleId) -> Mapping[str, Any] | None:
        """Why a sample was not run; None where it was, or isn't there.

        Raises:
            GoldenError: the file can't be read.
        """
        for name in ("rejected-ids.arrow", "rejected-00000.arrow"):  # older runs have no ids file
            path = self.folder / name
            if path.is_file():
                rows = rows_of(self._scalars(path), sample_id)
                return rows[0][1] if rows else None
        return None

    def tensors(self, sample: FailedSample) -> Tensors:
        """Inputs and both sides' outputs of a sample that was kept whole.

        Raises:
            GoldenError: the shard can't be read.
        """
        if sample.place is None:
            return Tensors()
        path, at = sample.place
        sides: dict[str, dict[str, Array]] = {}
        for prefix in TENSORS:
            pack = self._pack(path, prefix)
            side = sides[prefix] = {}
            for name in pack.outputs:
                try:
                    side[name] = _only(pack.output(name, at, at + 1))
                except GoldenError as e:
                    if e.code != "golden.null_value":  # the side had no answer
                        raise
        return Tensors(*(sides[prefix] for prefix in TENSORS))

    def _pack(self, path: Path, prefix: str) -> GoldenPack:
        packs = self._packs.setdefault(path, {})
        if prefix not in packs:
            packs[prefix] = open_pack([path.absolute()], path.parent, outputs_prefix=prefix)
        return packs[prefix]

    def close(self) -> None:
        """Let go of the shards."""
        for packs in self._packs.values():
            for pack in packs.values():
                pack.close()
        self._packs = {}

    def __enter__(self) -> FinishedRun:
        """Use it in a with statement, so that its shards are closed."""
        return self

    def __exit__(self, *_exc: object) -> None:
        """Close."""
        self.close()


def _only(rows: Any) -> Array:
    """The one row of an output, as an array, also where it is a single value."""
    only: Array = rows.reshape(rows.shape[1:]) if isinstance(rows, np.ndarray) else rows[0]
    return only


def _first_fault(summary: Mapping[str, Any]) -> str | None:
    """What keeps a summary from being one, however it came to be."""
    kinds = {"verdict": str, "reasons": list, "stages": list, "plan": dict, "golden": dict}
    for key, kind in {**kinds, "runners": dict}.items():
        if not isinstance(summary.get(key), kind):
            return f"{key} is missing" if key not in summary else f"{key} isn't what it should be"
    for key, needed in (("stages", _STAGE), ("reasons", {"code": str, "message": str})):
        for number, entry in enumerate(summary[key]):
            if not isinstance(entry, dict):
                return f"{key}[{number}] isn't a table"
            for field_name, kind in needed.items():
                if not isinstance(entry.get(field_name), kind):
                    return f"{key}[{number}].{field_name} is missing or isn't what it should be"
    return None


_STAGE = {"name": str, "reference": str, "candidate": str, "samples": dict, "outputs": dict}
