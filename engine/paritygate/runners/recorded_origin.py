"""Where a recording comes from, by what its files say: which golden pack, which runner."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, field

from paritygate.core.errors import RunnerLoadError
from paritygate.core.text import clean
from paritygate.golden.pack import GoldenPack
from paritygate.golden.schema import RECORDING
from paritygate.runners.base import Finding
from paritygate.runners.environment import describe_environment

if TYPE_CHECKING:
    from paritygate.golden.recording import Recording

CODE = "golden.other_pack"
INCOMPLETE = "evidence.incomplete_recording"
_WHOLE = "record the whole golden pack; a part proves nothing about the rest"


class Origin(Struct, frozen=True):
    """What the files of a recording say of themselves.

    Attributes:
        recordings: of each file that says so.
        files: all of its files.
        notes: what could not be checked.
        lacking: how far it is from complete.
    """

    recordings: tuple[Recording, ...] = ()
    files: int = 0
    notes: tuple[str, ...] = field(default=())
    lacking: tuple[str, ...] = field(default=())

    @property
    def source(self) -> str | None:
        """Identity of the one runner that answered, as the runner itself has it here; or None."""
        if not self.recordings or len(self.recordings) < self.files:
            return None
        here = describe_environment()
        sources = {recording.source(here) for recording in self.recordings}
        return sources.pop() if len(sources) == 1 else None

    @property
    def batch_size(self) -> int | None:
        """Rows of the batches in which all of it was answered, where it is known."""
        sizes = {recording.runner.batch_size for recording in self.recordings}
        is_known = len(self.recordings) == self.files and len(sizes) == 1
        return sizes.pop() if is_known else None

    def findings(self) -> tuple[Finding, ...]:
        """What held the recording when it was made or is missing from it: it holds what uses it."""
        found = dict.fromkeys((f.code, f.message) for r in self.recordings for f in r.findings)
        return (
            *(
                Finding(INCOMPLETE, f"the recording is incomplete: {told}", _WHOLE)
                for told in self.lacking
            ),
            *(
                Finding(code, f"when it was recorded, {clean(message)}", "record it anew")
                for code, message in found
            ),
        )

    def facts(self) -> list[dict[str, object]]:
        """What each file says, of JSON types."""
        return [recording.model_dump(mode="json") for recording in self.recordings]


def find_origin(runner: str, recording: GoldenPack, golden: GoldenPack) -> Origin:
    """Read what a recording says of itself, and hold it against the plan's golden pack.

    A golden pack that is a recording too must have been made of the same pack; one without inputs
    that doesn't say of what it was made is joined by id alone.

    Raises:
        RunnerLoadError: it was made of another golden pack, a fault of the plan; or what it says
            can't be read.
    """
    told = [_read(runner, recording, number) for number in range(len(recording.files))]
    known = tuple(found for found in told if found is not None)
    is_looked_for = recording is not golden and bool(golden.inputs)
    lacking = tuple(_lacking(recording, told, is_looked_for=is_looked_for))
    if recording is golden:
        return Origin(known, len(told), tuple(_notes(known, len(told))) if known else (), lacking)
    if not known:
        return Origin((), len(told), ("doesn't say of which golden samples it was made",))
    digests = {found.golden.digest for found in known}
    if len(digests) > 1:
        raise _refuse(runner, "its files were recorded from different golden packs", digests)
    notes = list(_notes(known, len(told)))
    wanted = _wanted(golden)
    if wanted is None:
        notes.append("the reference doesn't say of which golden samples it was made")
    elif wanted != digests:
        text = f"{recording.files[0].path} was recorded from another golden pack than the plan's"
        raise _refuse(runner, text, digests, wanted)
    return Origin(known, len(told), tuple(notes), lacking)


def _lacking(
    recording: GoldenPack, told: Sequence[Recording | None], *, is_looked_for: bool
) -> Iterator[str]:
    """How many samples of how many, where not all of the pack that it was made of are there.

    A recording may be cut into several files, which then say the same of themselves. Samples that
    were rejected are no loss where no more were than its plan allowed, nor where those of the
    golden pack are looked for in it: each is missing then, or rejected again.
    """
    rows: dict[str, int] = {}
    known: dict[str, Recording] = {}
    for found, file in zip(told, recording.files, strict=True):
        if found is not None:
            key = found.model_dump_json()
            known[key] = found
            rows[key] = rows.get(key, 0) + file.rows
    for key, found in known.items():
        samples = found.samples
        is_allowed = is_looked_for or samples.rejected <= found.max_rejected
        rejected = samples.rejected if is_allowed else 0
        if samples.recorded + samples.as_expected + rejected != found.golden.samples:
            yield (
                f"{samples.recorded} of the {found.golden.samples} samples of its golden pack were "
                f"recorded ({samples.asked} asked for, {samples.rejected} rejected, "
                f"{samples.raised} raised, {samples.missing} missing)"
            )
        if rows[key] != samples.recorded:
            yield f"it has {rows[key]} rows, but {samples.recorded} samples were recorded"


def _read(runner: str, pack: GoldenPack, number: int) -> Recording | None:
    try:
        return _said(pack.file_metadata[number])
    except ValueError as e:
        raise RunnerLoadError(
            runner, f"runner {runner!r}: {pack.files[number].path}: {e}", is_plan_fault=True
        ) from None


def _said(metadata: Mapping[bytes, bytes]) -> Recording | None:
    if RECORDING not in metadata:  # most say nothing, and what reads it takes long to import
        return None
    from paritygate.golden.recording import read_recording

    return read_recording(metadata)


def _wanted(golden: GoldenPack) -> set[str] | None:
    """Digests of the pack that a recording must have been made of; None: it can't be told."""
    told = []
    for metadata in golden.file_metadata:
        try:
            told.append(_said(metadata))
        except ValueError:
            told.append(None)
    known = {found.golden.digest for found in told if found is not None}
    if known and None not in told:
        return known
    return {golden.digest()} if golden.inputs else None


def _notes(known: Sequence[Recording], files: int) -> Iterator[str]:
    if len(known) < files:
        yield f"{files - len(known)} of its {files} files don't say of which samples they were made"
    for found in known:
        yield from _not_looked_for(found)
        samples = found.samples
        if samples.asked < found.golden.samples:
            yield f"it was made of the first {samples.asked} of {found.golden.samples} samples"
        if samples.rejected:
            yield (
                f"{samples.rejected} of {found.golden.samples} samples were rejected when it was "
                f"made, and aren't in it; its plan allowed {found.max_rejected} (max_rejected)"
            )
        if samples.raised:
            yield (
                f"the runner raised for {samples.raised} samples when it was made; first: "
                f"{clean(found.first_error)}"
            )


def _not_looked_for(found: Recording) -> Iterator[str]:
    if found.unchecked is None:
        yield (
            "doesn't say whether its runner was checked for answers that depend on the batch "
            "(runner.batch_coupled) or that aren't the pack's (runner.reference_drift)"
        )
    for told in found.unchecked or ():
        yield f"when it was recorded, {clean(told)}"
    if left := set(found.left_out) & {"class_keys", "views", "recorded", "fetches"}:
        names = ", ".join(sorted(left))
        yield f"its metadata have no room for {names}, so its classes were not checked"


def _refuse(
    runner: str, text: str, digests: set[str], wanted: set[str] | None = None
) -> RunnerLoadError:
    told = ", ".join(sorted(digest[:12] for digest in digests))
    than = ", ".join(sorted(digest[:12] for digest in wanted or ()))
    both = f"digest {told}, the plan's is {than}" if than else f"digests {told}"
    return RunnerLoadError(
        runner,
        f"runner {runner!r}: {text} ({both}); record it anew (paritygate record), or name the "
        "golden pack that it was recorded from",
        is_plan_fault=True,
        code=CODE,
    )
