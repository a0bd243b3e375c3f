"""Which operators of a model the observed batch really ran: support and test are two things."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # they need onnx, which summaries are read without
    from paritygate.admission.nodes import ModelNode
    from paritygate.admission.operators import Operator

MAX_LISTED = 200
MAX_IDLE = 5

# What can have become of a node, in the order in which it is told.
FATES = ("ran", "compiled_away", "in_compiled_subgraph", "not_run", "unnamed")


def describe_exercised(
    nodes: Sequence[ModelNode],
    fates: Mapping[str, Sequence[ModelNode]],
    unnamed_ran: Mapping[str, int],
    rows: int,
) -> dict[str, object]:
    """Operators of a model with what became of their nodes in one batch, of JSON types.

    Args:
        nodes: of the model.
        fates: `compiled_away`, `in_compiled_subgraph`, `not_run`, `unnamed`: the nodes of which
            this is known. All others ran.
        unnamed_ran: op type -> nodes without a name that ran.
        rows: of the batch.
    """
    counts: dict[Operator, Counter[str]] = {}
    left = Counter(node for node in nodes if not node.is_call and node.operator is not None)
    alike = Counter(node.op_type for node in fates.get("unnamed", ()))
    for fate, some in fates.items():
        for node in some:
            left[node] -= 1
            # As many of their op type ran as there are without a name: these are they.
            is_known = fate == "unnamed" and unnamed_ran.get(node.op_type, 0) >= alike[node.op_type]
            _count(counts, node, "ran" if is_known else fate)
    for node, count in left.items():
        _count(counts, node, "ran", count)
    told = [
        {**operator.to_json(), "nodes": sum(found.values()), **_told(found)}
        for operator, found in sorted(counts.items())
    ]
    ran = sum(1 for found in counts.values() if found["ran"])
    return {
        "rows": rows,
        "kinds": len(counts),
        "kinds_that_ran": ran,
        "operators": told[:MAX_LISTED],
    }


def note_idle(runner: str, facts: Mapping[str, object]) -> Iterator[str]:
    """A sentence on operators of which a body has nodes and none ran, of a runner's facts."""
    found = facts.get("exercised")
    operators = found.get("operators") if isinstance(found, Mapping) else None
    idle = [
        f"{told['op_type']} ({told['attributes']})" if told["attributes"] else told["op_type"]
        for told in (operators if isinstance(operators, list) else ())
        if told.get("not_run") and not told.get("ran")
    ]
    if idle:
        first = ", ".join(idle[:MAX_IDLE])
        more = f" and {len(idle) - MAX_IDLE} more" if len(idle) > MAX_IDLE else ""
        yield (
            f"operators: {runner}: no {first}{more} ran in the batch that was observed: they stand "
            "in bodies of If, Loop or Scan that it didn't enter"
        )


def _count(
    counts: dict[Operator, Counter[str]], node: ModelNode, fate: str, count: int = 1
) -> None:
    if node.operator is not None and count > 0:
        counts.setdefault(node.operator, Counter())[fate] += count


def _told(found: Counter[str]) -> dict[str, int]:
    return {fate: found[fate] for fate in FATES if found[fate]}
