"""A look into an ONNX model: what it is made of, what in it holds every run of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
from msgspec import Struct, field

from paritygate.admission.concerns import Concern
from paritygate.admission.errors import AdmissionError
from paritygate.admission.inventory import (
    count_operators,
    count_tensors,
    find_training,
    list_functions,
    list_metadata,
    note_fixed_batch,
    note_randomness,
    note_settings,
    open_dims,
)
from paritygate.admission.model import ModelFacts
from paritygate.admission.quantization import look_at_quantization
from paritygate.admission.scopes import iter_scopes
from paritygate.admission.structure import note_outputs

# Domains of operators that releases of ONNX Runtime bring along.
OWN_DOMAINS = ("com.microsoft", "com.ms.", "ai.onnx", "org.pytorch.aten")


class Inspection(Struct, frozen=True):
    """What a look into a model found, picklable.

    Attributes:
        facts: what it is made of, of JSON types and bounded.
        concerns: what holds every run of it.
        notes: what is worth telling.
        foreign: domains of operators that neither a runtime nor the model itself brings.
    """

    facts: Mapping[str, object] = field(default_factory=dict)
    concerns: tuple[Concern, ...] = ()
    notes: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """All of it, of JSON types."""
        return {
            "findings": [concern.to_json() for concern in self.concerns],
            "notes": list(self.notes),
            **self.facts,
        }


def inspect_structure(model: onnx.ModelProto, facts: ModelFacts, folder: Path) -> Inspection:
    """Look into a model whose structure has been checked.

    Args:
        model: without external data.
        facts: what it says of itself.
        folder: where its external data lie; of them only scales are read.

    Raises:
        AdmissionError: external data can't be read.
    """
    scopes = list(iter_scopes(model, folder))
    try:
        quantization = look_at_quantization(scopes)
    except OSError as e:
        raise AdmissionError(f"external data can't be read: {e}") from None
    concerns = [*quantization.concerns, *find_training(scopes)]
    notes = [
        *note_fixed_batch(model),
        *note_outputs(model),
        *quantization.notes,
        *note_settings(model),
        *note_randomness(model),
        *_note_training_graphs(model),
    ]
    told: dict[str, object] = {
        "operators": count_operators(model),
        "functions": list_functions(facts.functions),
        "open_dims": open_dims(model),
        "tensors": count_tensors(model),
        "quantization": quantization.facts,
        "metadata": list_metadata(model),
    }
    return Inspection(told, tuple(concerns), tuple(notes), foreign_domains(facts))


def foreign_domains(facts: ModelFacts) -> tuple[str, ...]:
    """Domains of operators that neither a runtime nor a function of the model brings."""
    defined = {name.partition(":")[0] for name in facts.functions}
    return tuple(
        d for d in facts.custom_domains if d not in defined and not d.startswith(OWN_DOMAINS)
    )


def _note_training_graphs(model: onnx.ModelProto) -> list[str]:
    count = len(model.training_info)
    told = f"{count} graphs of training (training_info) lie in the file, which inference ignores"
    return [told] if count else []
