"""Packs by themselves: what is in one, and its content digest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from paritygate.api.plans import load_plan
from paritygate.core.plan import Plan
from paritygate.golden import check, content
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.check_words import Status, describe_pack, pack_summary
from paritygate.golden.pack import GoldenPack
from paritygate.pipeline.contract import InputContract, input_contracts

Files = str | PathLike[str] | Sequence[str | PathLike[str]]

_STEP = 4_096
_TOLD = 10


@dataclass(frozen=True)
class PackReport:
    """What `check_pack` found.

    Attributes:
        lines: status and sentence of each thing looked at.
        summary: the same for programs.
        exit_code: 0; 1: a run on this pack would hold; 2: none could begin.
    """

    lines: tuple[tuple[Status, str], ...]
    summary: Mapping[str, Any]
    exit_code: int

    @property
    def problems(self) -> tuple[str, ...]:
        """The sentences of what failed."""
        return tuple(text for status, text in self.lines if status == "fail")


def pack_digest(pack: Files, *, id: str = "sample_id", cache: bool = True) -> str:
    """Content digest of a pack, 64 hex digits: of its samples, however they are stored.

    Args:
        pack: files, folders or globs.
        id: column of the ids.
        cache: take the digest made before, if no file has changed since.

    Raises:
        GoldenError: the pack can't be read.
    """
    return content.content_digest(files_of(pack), Path.cwd(), id_column=id, cache=cache)


def check_pack(
    pack: Files,
    *,
    against: Files | None = None,
    plan: Plan | str | Path | Mapping[str, Any] | None = None,
    id: str = "sample_id",
    label: str | None = None,
    slices: Sequence[str] = (),
) -> PackReport:
    """Read all of a pack and say what is in it.

    Args:
        pack: files, folders or globs.
        against: a pack that should have no sample in common with it, by the inputs.
        plan: takes ids, label, slices and columns from a plan, holds the samples against its
            contract, and compares with its calibration pack where `against` names none.
        id: column of the ids, without a plan.
        label: column of the labels, without a plan; None: `label`, if there.
        slices: columns whose values are counted, without a plan.

    Raises:
        ParityError: a pack or plan that can't be read: a null in a tensor, damage.
    """
    loaded = plan if plan is None or isinstance(plan, Plan) else load_plan(plan)
    use = PackUse(id, label, tuple(slices)) if loaded is None else _use(loaded)
    other = [] if against is None else [str(Path(file).absolute()) for file in files_of(against)]
    folder = Path.cwd()
    if loaded is not None and against is None:
        other = [str(loaded.folder / file) for file in loaded.calibration]
    files = files_of(pack)
    with open_for_check(files, folder, use) as opened:
        facts = check.check_pack(opened, files, folder, use, other)
        lines = describe_pack(facts)
        rejected = dict(_rejected(loaded, opened)) if loaded is not None else {}
    lines += [line for name, ids in rejected.items() for line in _contract(name, ids)]
    summary = pack_summary(facts, lines)
    summary["rejected"] = {n: {"count": len(i), "first": i[:_TOLD]} for n, i in rejected.items()}
    failed = any(status == "fail" for status, _ in lines)
    return PackReport(tuple(lines), summary, 2 if facts.scan.duplicates else int(failed))


def files_of(pack: Files) -> list[str]:
    """Files, folders or globs as texts."""
    some = [pack] if isinstance(pack, str | PathLike) else list(pack)
    return [str(file) for file in some]


def _use(plan: Plan) -> PackUse:
    table = plan.table
    columns = {name: t.column for name, t in table.inputs.items() if t.column is not None}
    return PackUse(table.id, table.label, tuple(plan.slices), columns, table.outputs_from)


def _rejected(plan: Plan, pack: GoldenPack) -> Iterator[tuple[str, list[int | str]]]:
    """Ids of the samples that break the contract of an input."""
    for contract in input_contracts(plan, pack.inputs):
        found: list[int | str] = []
        for start, stop in pack.batch_spans(_STEP):
            rows = start + np.flatnonzero(_violations(contract, pack, start, stop))
            found += pack.take_ids(rows).tolist()
            pack.done_until(stop)
        yield contract.name, found


def _violations(contract: InputContract, pack: GoldenPack, start: int, stop: int) -> Any:
    values = pack.tensor(f"in.{contract.name}", start, stop)
    if isinstance(values, np.ndarray):
        return contract.violations(values)
    return np.concatenate([contract.violations(one[None]) for one in values])


def _contract(name: str, ids: Sequence[int | str]) -> Iterator[tuple[Status, str]]:
    if not ids:
        yield "ok", f"input {name}: every sample is within the plan's contract"
        return
    told = ", ".join(repr(i) for i in ids[:_TOLD]) + (", ..." if len(ids) > _TOLD else "")
    yield "fail", f"input {name}: {len(ids)} samples break the plan's contract: {told}"
