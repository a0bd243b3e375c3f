"""That a sample belongs to a pack, proved without the pack."""

from __future__ import annotations

import json
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from paritygate.api.exporting import rows_of
from paritygate.api.packs import Files, files_of
from paritygate.core.errors import GoldenError, PlanError, Problem
from paritygate.golden.check import PackUse, open_for_check
from paritygate.golden.content import leaf_of, prove_row
from paritygate.golden.merkle import Proof

_VERSION = 1


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
        PlanError: no proof.
    """
    told = _read(proof)
    try:
        found = Proof(
            int(told["row"]),
            int(told["samples"]),
            tuple(bytes.fromhex(node) for node in told["path"]),
        )
        sample = told["id"]
        is_known = told["schema_version"] == _VERSION
    except (KeyError, TypeError, ValueError) as error:
        raise _no_proof(f"is none: {error!r}") from error
    if not is_known:
        raise _no_proof(f"has the version {told['schema_version']!r}; this one reads {_VERSION}")
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


def _read(proof: Mapping[str, Any] | str | PathLike[str]) -> Mapping[str, Any]:
    if isinstance(proof, Mapping):
        return proof
    try:
        told = json.loads(Path(proof).read_bytes())
    except OSError as error:
        raise GoldenError(f"{proof}: can't be opened ({error.strerror or error})") from error
    except ValueError as error:
        raise _no_proof(f"is no JSON ({error})") from error
    if not isinstance(told, Mapping):
        raise _no_proof("is no table")
    return told


def _no_proof(told: str) -> PlanError:
    return PlanError([Problem("proof", told)], "pack verify")
