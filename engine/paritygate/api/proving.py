"""That a sample belongs to a pack, proved without the pack."""

from __future__ import annotations

import re
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    ValidationError,
)

from paritygate.api.exporting import rows_of
from paritygate.api.packs import Files, files_of
from paritygate.core.errors import PlanError, Problem
from paritygate.core.text import clean
from paritygate.golden.bounds import read_whole
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.content import leaf_of, prove_row
from paritygate.golden.merkle import Proof

_VERSION = 1
_MOST_BYTES = 1 << 20
_DIGEST = re.compile(r"[0-9a-f]{64}")

_Hash = Annotated[StrictStr, Field(pattern=r"^[0-9a-f]{64}$")]


class _ProofTable(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1]
    content_digest: _Hash
    samples: Annotated[StrictInt, Field(ge=1, lt=1 << 63)]
    row: Annotated[StrictInt, Field(ge=0, lt=1 << 63)]
    id: StrictInt | StrictStr
    leaf: _Hash
    path: Annotated[list[_Hash], Field(max_length=64)]


def prove_sample(pack: Files, sample: int | str, *, id: str = "sample_id") -> dict[str, Any]:
    """The proof that a sample belongs to a pack, as a table that JSON holds.

    Args:
        pack: files, folders or globs.
        sample: its id.
        id: column of the ids.

    Raises:
        GoldenError: the pack can't be read, or has no such sample.
    """
    row = _row(pack, sample, id)
    proof, leaf = prove_row(files_of(pack), Path.cwd(), row, id_column=id)
    return {
        "schema_version": _VERSION,
        "content_digest": proof.digest(leaf),
        "samples": proof.samples,
        "row": proof.row,
        "id": sample,
        "leaf": leaf.hex(),
        "path": [node.hex() for node in proof.path],
    }


def verify_proof(
    proof: Mapping[str, Any] | str | PathLike[str],
    sample_pack: Files,
    digest: str,
    *,
    id: str = "sample_id",
) -> bool:
    """Whether a sample belongs to the pack of a content digest, of which nothing else is needed.

    Args:
        proof: what `prove_sample` gave, or a JSON file of it.
        sample_pack: any pack that holds this sample, with all its columns; one row will do.
        digest: content digest of the pack that it should belong to.
        id: column of the ids.

    Raises:
        GoldenError: the pack of the sample can't be read, or doesn't hold it.
        PlanError: no proof, or no digest.
    """
    if not _DIGEST.fullmatch(digest.lower()):
        what = f"is {clean(digest[:80])!r}; a content digest has 64 digits of 0-9 and a-f"
        raise PlanError([Problem("digest", what)], "pack verify")
    told = _read(proof)
    found = Proof(told.row, told.samples, tuple(bytes.fromhex(node) for node in told.path))
    sample = told.id
    row = _row(sample_pack, sample, id)
    leaf = leaf_of(files_of(sample_pack), Path.cwd(), row, id_column=id)
    try:
        return found.digest(leaf) == digest.lower()
    except ValueError:
        return False


def _row(pack: Files, sample: int | str, id_: str) -> int:
    with open_for_check(files_of(pack), Path.cwd(), PackUse(id_)) as opened:
        opened.scan_ids()
        (row,) = rows_of(opened, [sample])
        return row


def _read(proof: Mapping[str, Any] | str | PathLike[str]) -> _ProofTable:
    try:
        if isinstance(proof, Mapping):
            return _ProofTable.model_validate(dict(proof))
        return _ProofTable.model_validate(orjson.loads(read_whole(Path(proof), _MOST_BYTES)))
    except orjson.JSONDecodeError as error:
        raise _no_proof(f"is no JSON ({error})") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "it"
        raise _no_proof(f"is none: {where}: {clean(first['msg'])}") from error


def _no_proof(told: str) -> PlanError:
    return PlanError([Problem("proof", told)], "pack verify")
