"""`paritygate compare`: two recordings, joined by id."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish
from paritygate_frontends.cli.options import (
    ArgmaxOf,
    Atol,
    BandRules,
    ComparesOn,
    EqualOf,
    Json,
    Limit,
    NonfiniteRule,
    Out,
    Rtol,
    StatsTier,
    Threads,
    TolerancesOf,
    TopkOf,
    read_tolerances,
)
from paritygate_frontends.cli.supervise import tell_recorded


def compare(
    ref: Annotated[
        str, typer.Argument(metavar="REF", help="The reference's outputs: file or glob.")
    ],
    cand: Annotated[str, typer.Argument(metavar="CAND", help="The candidate's outputs.")],
    atol: Atol = None,
    rtol: Rtol = None,
    tolerance: TolerancesOf = None,
    nonfinite: NonfiniteRule = None,
    bands: BandRules = None,
    argmax: ArgmaxOf = None,
    topk: TopkOf = None,
    equal: EqualOf = None,
    id_: Annotated[
        str, typer.Option("--id", metavar="COLUMN", help="The column of sample ids.")
    ] = "sample_id",
    self_: Annotated[
        bool, typer.Option("--self", help="Both may be the same recording: a check of noise.")
    ] = False,
    limit: Limit = None,
    stats: StatsTier = "full",
    threads: Threads = None,
    compare_on: ComparesOn = None,
    out: Out = Path("runs"),
    json: Json = False,
) -> None:
    """Compare two packs of recorded outputs, sample by sample, joined by id in any order.

    Outputs are the columns out.*, or every column but the id where none is named so. Without a
    tolerance they must be equal.
    """

    def work() -> int:
        tell_recorded((ref, cand))
        tolerances = read_tolerances(atol, rtol, tolerance or ())
        from paritygate import api
        from paritygate_frontends.cli.judged import judge_and_tell

        return judge_and_tell(
            "compare",
            lambda observer: api.compare(
                ref,
                cand,
                atol=atol,
                rtol=rtol,
                nonfinite=nonfinite or "fail",
                tolerances=tolerances,
                bands=bands or (),
                argmax=argmax or (),
                topk=topk or (),
                equal=equal or (),
                id=id_,
                is_self=self_,
                out=out,
                stats=stats,
                limit=limit,
                threads=threads,
                compare_on=compare_on,
                observer=observer,
            ),
            json,
        ).exit_code

    finish(work, as_json=json)
