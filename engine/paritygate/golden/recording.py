"""Recordings: what the metadata of a file of recorded outputs say of where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from paritygate.core.digest import canonical_json
from paritygate.core.text import clean
from paritygate.golden.schema import RECORDING

KEY = RECORDING
VERSION = 1
RESERVED = 32 << 10
_LONGEST_TEXT = 500
_LAST = ("class_keys", "views", "recorded", "fetches")  # the verdict looks at them

Digest = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]
Count = Annotated[StrictInt, Field(ge=0)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class RecordedPack(_Part):
    """The golden pack: digest over its files in their order, and its samples."""

    digest: Digest
    samples: Count


class RecordedBy(_Part):
    """The runner: its digests with and without what the plan declares, batch rows, facts."""

    name: StrictStr
    kind: StrictStr
    identity: StrictStr
    source: StrictStr
    batch_size: StrictInt | None = None
    facts: dict[StrictStr, Any] = Field(default={})


class RecordedSamples(_Part):
    """What became of the samples that were asked for.

    Those that the pack expects to be rejected, and were, count as nothing but `as_expected`.
    """

    asked: Count
    recorded: Count
    rejected: Count
    raised: Count
    missing: Count
    as_expected: Count = 0


class RecordedFinding(_Part):
    """Something that held the recording itself."""

    code: Annotated[StrictStr, Field(pattern=r"^[a-z]+\.[a-z_]+$")]
    message: StrictStr


class Recording(_Part):
    """Where recorded outputs come from.

    Attributes:
        version: of this form.
        golden: the pack whose samples were answered.
        plan: digest of the plan, hex.
        runner: what answered.
        samples: how many of them.
        max_rejected: how many of them that plan let the contract reject.
        first_error: what the runner raised first, if it did.
        findings: what holds whatever is made of it.
        unchecked: what was not looked for when it was made; None: it doesn't say.
        left_out: facts that didn't fit.
        environment: versions, processor and settings.
        paritygate: the version that wrote it.
        finished: when, in UTC.
    """

    version: StrictInt
    golden: RecordedPack
    plan: Digest
    runner: RecordedBy
    samples: RecordedSamples
    max_rejected: Count = 0
    first_error: StrictStr = ""
    findings: tuple[RecordedFinding, ...] = ()
    unchecked: tuple[StrictStr, ...] | None = None
    left_out: tuple[StrictStr, ...] = ()
    environment: dict[StrictStr, Any] = Field(default={})
    paritygate: StrictStr
    finished: StrictStr

    def source(self, here: Mapping[str, object]) -> str:
        """Identity of what answered; that of the runner itself where it was recorded as here.

        Args:
            here: the environment of this process.
        """
        if canonical_json(self.environment) == canonical_json(dict(here)):
            return self.runner.source
        parts = ["recorded by", self.runner.source, self.environment]
        return hashlib.sha256(canonical_json(parts)).hexdigest()


def encode_recording(recording: Recording) -> bytes:
    """JSON of `RESERVED` bytes, spaces at its end.

    Long texts are cut, and what doesn't fit is left out of the facts and the environment, the
    largest entry first, but what a verdict looks at last.
    """
    data = recording.model_dump(mode="json")
    data["first_error"] = data["first_error"][:_LONGEST_TEXT]
    for finding in data["findings"]:
        finding["message"] = finding["message"][:_LONGEST_TEXT]
    if data["unchecked"] is not None:
        data["unchecked"] = [told[:_LONGEST_TEXT] for told in data["unchecked"]]
    roomy = [data["runner"]["facts"], data["environment"]]
    while len(text := canonical_json(data)) > RESERVED:
        entries = [(len(canonical_json(v)), key, part) for part in roomy for key, v in part.items()]
        if not entries:
            raise ValueError(f"a recording's metadata of {len(text)} bytes don't fit {RESERVED}")
        _, key, part = max(entries, key=lambda entry: (entry[1] not in _LAST, *entry[:2]))
        del part[key]
        data["left_out"].append(key)
    return text.ljust(RESERVED)


def read_recording(metadata: Mapping[bytes, bytes] | None) -> Recording | None:
    """What a file says of itself; None: it doesn't.

    Raises:
        ValueError: it says so in a way that can't be read, or of a newer version.
    """
    text = (metadata or {}).get(KEY)
    if text is None:
        return None
    try:
        recording = Recording.model_validate_json(text)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ValueError(f"its metadata {KEY.decode()} are damaged: {where} {first['msg']}") from e
    if wrong := _wrong(recording):
        raise ValueError(f"its metadata {KEY.decode()} are damaged: {wrong}")
    if recording.version > VERSION:
        raise ValueError(
            f"it is a recording of version {clean(recording.version)}, newer than {VERSION}, which "
            "this version of paritygate reads"
        )
    return recording


def _wrong(recording: Recording) -> str | None:
    """What no recording says of itself, though each of its fields could be."""
    samples, golden = recording.samples, recording.golden.samples
    became = (samples.recorded, samples.rejected, samples.as_expected, samples.raised)
    if sum(became) + samples.missing != samples.asked:
        return f"samples of {samples.asked} that were asked for don't add up"
    if samples.asked > golden:
        return f"samples.asked is {samples.asked}, more than the {golden} of its golden pack"
    if recording.version < 1:
        return f"version is {clean(recording.version)}"
    try:
        canonical_json([recording.environment, recording.runner.facts])
    except ValueError as e:
        return str(e)
    return None
