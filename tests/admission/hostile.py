"""All that a look into a model does with bytes that may be anything, without the child process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from paritygate.admission.errors import AdmissionError
from paritygate.admission.external import find_parts
from paritygate.admission.inspect import inspect_structure
from paritygate.admission.inspect_other import form_of_model, inspect_other
from paritygate.admission.model import describe_model, read_structure
from paritygate.admission.nodes import list_nodes
from paritygate.admission.precision import describe_precision
from paritygate.admission.semantic import digest_graph, used_opsets


def outcome(path: Path) -> Literal["read", "refused"]:
    """Look into a file; anything but a refusal that says why is a fault."""
    try:
        form = form_of_model(path)
        if form != "onnx":
            _, found = inspect_other(path, form)
            json.dumps(found.to_json())
            return "read"
        model = read_structure(path, path)
        if find_parts(path, model):
            return "refused"  # there is no such file
        facts = describe_model(model)
        describe_precision(model)
        found = inspect_structure(model, facts, path.parent)
        json.dumps([found.to_json(), facts.to_json()]).encode()
        list_nodes(model)
        digest_graph(model, path.parent)
        used_opsets(model)
    except AdmissionError as e:
        assert 0 < len(str(e)) < 5_000
        return "refused"
    return "read"
