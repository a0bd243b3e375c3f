"""`paritygate inspect`: what a model is made of, and what in it would hold a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paritygate_frontends.cli.ending import finish, output, print_json
from paritygate_frontends.cli.options import Json


def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="ONNX file, or file of torch.")],
    onnxruntime: Annotated[
        str | None, typer.Option(metavar="VERSION", help="A release that it is to run on: 1.17.")
    ] = None,
    max_opset: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Newest opset that its target takes.")
    ] = None,
    max_ir: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Newest IR version that it takes.")
    ] = None,
    json: Json = False,
) -> None:
    """Look into a model without running it: versions, operators, tensors, quantization, trust.

    Ends with 0, with 1 where something would hold every run of it, with 2 where it can't be read.
    """

    def work() -> int:
        from paritygate import api
        from paritygate_frontends.report.inspection import render_inspection
        from paritygate_frontends.report.screen import show

        found = api.inspect_model(
            model, onnxruntime=onnxruntime, max_opset=max_opset, max_ir=max_ir
        )
        if json:
            print_json(found)
        else:
            with output():
                show(render_inspection(found))
        return 1 if found["findings"] else 0

    finish(work, as_json=json)
