"""Packs by themselves: what is in one, and its content digest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from paritygate.api.plans import load_plan
from paritygate.core.plan import Plan
from paritygate.golden import check, content
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.check_words import Status, describe_pack, pack_summary
from paritygate.pipeline.expect import EXPECT

Files = str | PathLike[str] | Sequence[str | PathLike[str]]


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
        if loaded is None:
            summary = {**pack_summary(facts, lines), "rejected": {}}
        else:
            from paritygate.pipeline.held import describe_held, hold_to_contract

            held = hold_to_contract(loaded, opened)
            lines += describe_held(held)
            summary = pack_summary(facts, lines)
            summary |= {"rejected": held.by_input(), "contract": held.summary()}
    failed = any(status == "fail" for status, _ in lines)
    return PackReport(tuple(lines), summary, 2 if facts.scan.duplicates else int(failed))


def files_of(pack: Files) -> list[str]:
    """Files, folders or globs as texts."""
    some = [pack] if isinstance(pack, str | PathLike) else list(pack)
    return [str(file) for file in some]


def _use(plan: Plan) -> PackUse:
    table = plan.table
    columns = {name: t.column for name, t in table.inputs.items() if t.column is not None}
    slices = [*plan.slices, *([table.expect] if table.expect else [])]
    is_default = table.expect is None and table.outputs_from == "prefix"
    return PackUse(
        table.id,
        table.label,
        tuple(dict.fromkeys(slices)),
        columns,
        table.outputs_from,
        slice_if_there=EXPECT if is_default else None,
    )
