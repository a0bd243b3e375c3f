"""What became of a model's nodes in one profiled run, as far as their names tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from paritygate.admission.nodes import ModelNode
from paritygate.runners.ort_exercised import describe_exercised
from paritygate.runners.ort_observe import Observation
from paritygate.runners.ort_placement import AssignedNode, by_provider, is_inserted, label, listed

PROFILE_CAP = 1_000_000


def describe_observed(
    nodes: Sequence[ModelNode],
    assigned: Sequence[AssignedNode] | None,
    observation: Observation,
) -> dict[str, object]:
    """What one profiled run showed of a model's nodes, of JSON types; matched by names only."""
    executed = observation.executed
    if executed is None:
        return {"executed": None, "not_observable": [f"what ran: {observation.problem}"]}
    ran = [AssignedNode(provider, name, "", op) for provider, name, op, _, _ in executed]
    indices = [index for *_, index, _ in executed]
    fates = _Fates.of(nodes, assigned or (), ran, indices)
    unseen = fates.unseen()
    if observation.events >= PROFILE_CAP:
        unseen.append(f"nodes beyond the {PROFILE_CAP:,} events that a profile holds")
    told: dict[str, object] = {"executed": by_provider(ran), "model_nodes": len(nodes)}
    told["folded_or_fused"] = listed(label(n.name, n.op_type) for n in fates.gone)
    told["made_by_runtime"] = listed(node.label for node in fates.made)
    told["inserted"] = listed(f"{n.label} on {n.provider}" for n in fates.inserted)
    told["not_run"] = listed(label(n.name, n.op_type) for n in fates.idle)
    told["not_observable"] = unseen
    return told


def exercised_operators(
    nodes: Sequence[ModelNode],
    assigned: Sequence[AssignedNode] | None,
    observation: Observation,
    rows: int,
) -> dict[str, object] | None:
    """Operators of a model with what became of their nodes; None where nothing was observed."""
    if observation.executed is None:
        return None
    ran = [
        AssignedNode(provider, name, "", op) for provider, name, op, _, _ in observation.executed
    ]
    indices = [index for *_, index, _ in observation.executed]
    fates = _Fates.of(nodes, assigned or (), ran, indices)
    unnamed = Counter(
        node.op_type
        for node, index in zip(ran, indices, strict=True)
        if node.name == f"{node.op_type}_{index}"
    )
    known = {
        "compiled_away": fates.gone,
        "in_compiled_subgraph": fates.compiled,
        "not_run": fates.idle,
        "unnamed": fates.unnamed,
    }
    return describe_exercised(nodes, known, unnamed, rows)


class _Fates(Struct, frozen=True):
    """Nodes of the model and of the run, by what can be said of them.

    Attributes:
        gone: of the model, without an event of their name.
        idle: of bodies, assigned and without an event.
        compiled: of the model, assigned to a provider that compiles.
        unnamed: of the model.
        made: of the run, without a name of the model's.
        inserted: casts and copies.
        subgraphs: provider -> compiled subgraphs that ran.
    """

    gone: tuple[ModelNode, ...]
    idle: tuple[ModelNode, ...]
    compiled: tuple[ModelNode, ...]
    unnamed: tuple[ModelNode, ...]
    made: tuple[AssignedNode, ...]
    inserted: tuple[AssignedNode, ...]
    subgraphs: Mapping[str, int]

    @staticmethod
    def of(
        nodes: Sequence[ModelNode],
        assigned: Sequence[AssignedNode],
        ran: Sequence[AssignedNode],
        indices: Sequence[str],
    ) -> _Fates:
        subgraphs = Counter(n.provider for n in ran if n.name.startswith(f"{n.provider}_"))
        inserted = tuple(n for n in ran if is_inserted(n.name, n.op_type))
        unnamed = tuple(n for n in nodes if not n.name and not n.is_call)
        own = {_name_in_run(n) for n in nodes if n.name}
        nameless_ops = {n.op_type for n in unnamed}
        made = tuple(
            n
            for n, index in zip(ran, indices, strict=True)
            if not is_inserted(n.name, n.op_type) and not _ends_with_any(n.name, own)
            if not (n.name == f"{n.op_type}_{index}" and n.op_type in nameless_ops)
        )
        unmatched = _unmatched(nodes, ran)
        names = {n.name for n in ran}
        to_compilers = {n.name for n in assigned if n.provider in subgraphs}
        placed = {n.name for n in assigned}
        gone, idle, compiled = [], [], []
        for node in unmatched:
            name = _name_in_run(node)
            if node.function and any(n.endswith(name) for n in names):
                continue  # inlined more than once, or within another function
            if name in to_compilers:
                compiled.append(node)
            elif node.place == "body" and name in placed:
                idle.append(node)
            else:
                gone.append(node)
        return _Fates(
            tuple(gone), tuple(idle), tuple(compiled), unnamed, made, inserted, dict(subgraphs)
        )

    def unseen(self) -> list[str]:
        """What this version of the runtime doesn't show, as sentences."""
        told = [
            "the judged session itself: what ran was observed in another session, made alike",
            "which nodes went into which fused one, and where folded ones were calculated",
            "the variant of each kernel: instruction set, algorithm, TF32",
        ]
        for provider, count in sorted(self.subgraphs.items()):
            told.append(
                f"fusion, order and precision within the {count} subgraphs that {provider} "
                f"compiled, to which {len(self.compiled)} named nodes of the model were assigned"
            )
        if self.unnamed:
            told.append(f"{len(self.unnamed)} nodes without a name, one by one")
        if self.idle:
            told.append(
                f"{len(self.idle)} nodes of bodies of If, Loop or Scan: this batch didn't run "
                "them, or they were fused"
            )
        return told


def _unmatched(nodes: Sequence[ModelNode], ran: Sequence[AssignedNode]) -> list[ModelNode]:
    """Named nodes of which nothing ran: of name and op type first, then of the name alone."""
    left = Counter((n.name, n.op_type) for n in ran)
    others = []
    for node in nodes:
        if node.name and not node.is_call:
            key = _name_in_run(node), node.op_type
            if left[key]:
                left[key] -= 1
            else:
                others.append(node)
    by_name: Counter[str] = Counter()
    for (name, _), count in left.items():
        by_name[name] += count
    unmatched = []
    for node in others:
        name = _name_in_run(node)
        if by_name[name]:
            by_name[name] -= 1
        else:
            unmatched.append(node)
    return unmatched


def _name_in_run(node: ModelNode) -> str:
    """The name that the runtime gives a node; that of an inlined one names its function."""
    return f"_inlfunc_{node.function}_{node.name}" if node.function else node.name


def _ends_with_any(name: str, own: set[str]) -> bool:
    if name in own:
        return True
    at = name.rfind("_inlfunc_")
    return at >= 0 and any(other.startswith("_inlfunc_") and name.endswith(other) for other in own)
