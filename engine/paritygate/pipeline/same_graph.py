"""Stages of which both sides calculate the same graph: told with the verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from paritygate.core.plan import Stage
from paritygate.runners.base import Runner


def note_same_graphs(stage: Stage, ref: Runner, cand: Runner) -> Iterator[str]:
    """A sentence where the two models differ in nothing but packaging, or the opset's number."""
    if ref.source == cand.source:
        return
    sides = [_model(runner) for runner in (ref, cand)]
    graphs = [told.get("graph_digest") for told in sides]
    if graphs[0] is None or graphs[0] != graphs[1]:
        return
    if sides[0].get("semantic_digest") == sides[1].get("semantic_digest"):
        yield (
            f"stage {stage.name}: both models are the same graph with the same weights (semantic "
            f"digest {str(sides[0].get('semantic_digest'))[:12]}), so that agreement says nothing "
            "of a conversion"
        )
        return
    yield (
        f"stage {stage.name}: the models differ in nothing but the number of the opset: "
        f"{_opsets(sides[0])} against {_opsets(sides[1])}"
    )


def _model(runner: Runner) -> Mapping[str, object]:
    found = runner.facts.get("model")
    return found if isinstance(found, Mapping) else {}


def _opsets(told: Mapping[str, object]) -> str:
    opsets = told.get("opsets")
    found = opsets.items() if isinstance(opsets, Mapping) else ()
    return ", ".join(f"{domain} {version}" for domain, version in found)
