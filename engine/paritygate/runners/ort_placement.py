"""Where a model's nodes run: what was assigned, what ran, what holds, what can't be seen."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct

from paritygate.runners.base import Finding
from paritygate.runners.ort_observe import Observation
from paritygate.runners.ort_options import CPU

MAX_LISTED = 100
_TOLD_OPS, _TOLD_NAMES = 8, 3
_COPIES = frozenset({"MemcpyToHost", "MemcpyFromHost", "ReorderInput", "ReorderOutput"})
_LIBRARIES = (
    "the libraries that the provider needs (`paritygate doctor`), and whether it supports the "
    "model's operators"
)


class AssignedNode(Struct, frozen=True):
    """A node as it was when providers were given theirs; the name may be empty."""

    provider: str
    name: str
    domain: str
    op_type: str

    @property
    def label(self) -> str:
        """Name and op type, as a person reads it."""
        return label(self.name, self.op_type)


def label(name: str, op_type: str) -> str:
    """Name and op type of a node; an unnamed one is told as such."""
    return f"{name or '(unnamed)'} ({op_type})"


def is_cpu_only(requested: Sequence[str]) -> bool:
    """Whether there is only one place where nodes could run."""
    return set(requested) <= {CPU}


def find_misplaced(
    runner: str,
    requested: Sequence[str],
    in_force: Sequence[str],
    assigned: Sequence[AssignedNode] | None,
    allowed: Sequence[str],
    why: Callable[[str], str] = lambda provider: "",
) -> tuple[Finding, ...]:
    """What holds as soon as the model is loaded.

    Args:
        runner: its name in the plan.
        requested: providers in the plan's order.
        in_force: providers in force.
        assigned: where each node went; None where the runtime can't tell.
        allowed: op types and names of nodes that may run elsewhere than on the first provider.
        why: provider -> why it isn't in force; empty where nobody knows.
    """
    if is_cpu_only(requested):
        return ()
    counts = Counter(node.provider for node in assigned or ())
    found: list[Finding] = []
    for rank, name in enumerate(requested):
        if name == CPU:
            break  # what comes after it could only take what the CPU can't run
        if name not in in_force:
            told = f" ({reason})" if (reason := why(name)) else ""
            what = f"isn't in force{told}; the model runs on {', '.join(in_force)}"
            found.append(_downgraded(name, what))
        elif assigned is not None and not counts[name]:
            taken = ", ".join(f"{n} on {k}" for k, n in sorted(counts.items()))
            if rank == 0 and taken:
                what = f"took none of the model's nodes ({taken})"
                found.append(_downgraded(name, what))
            else:
                found.append(_unused(name, taken))
    if not any(f.code == "placement.downgraded" for f in found):
        strays = [node for node in assigned or () if node.provider != requested[0]]
        found += _fallback(runner, requested[0], strays, len(assigned or ()), allowed)
    return tuple(found)


def find_unproven(
    runner: str,
    requested: Sequence[str],
    assigned: Sequence[AssignedNode] | None,
    observation: Observation,
    in_force: Sequence[str],
    in_force_after: Sequence[str],
    allowed: Sequence[str],
) -> tuple[Finding, ...]:
    """What holds once the run is over: a session that changed, nodes that ran elsewhere."""
    found: list[Finding] = []
    gone = [name for name in in_force if name not in in_force_after]
    if gone:
        what = (
            f"was in force when the run began and isn't any more; the session ended on "
            f"{', '.join(in_force_after)}"
        )
        found.append(_downgraded(", ".join(gone), what))
    if is_cpu_only(requested):
        return tuple(found)
    executed = observation.executed
    if assigned is None and executed is None:
        found.append(
            Finding(
                "placement.unobserved",
                f"{requested[0]} was asked for, and nothing shows what ran on it: this build of "
                f"the runtime records no assignment, and {observation.problem or 'no batch ran'}",
                "use onnxruntime 1.24 or newer, which says where nodes go",
            )
        )
        return tuple(found)
    if executed is not None:
        found += _against_executed(runner, requested, assigned, executed, allowed)
    return tuple(found)


def _against_executed(
    runner: str,
    requested: Sequence[str],
    assigned: Sequence[AssignedNode] | None,
    executed: Iterable[tuple[str, str, str, str, int]],
    allowed: Sequence[str],
) -> list[Finding]:
    """Nodes that ran where none had been assigned, and the first provider without any."""
    first, ran = requested[0], list(executed)
    known = {node.provider for node in assigned or ()}
    strays = [
        AssignedNode(provider, name, "", op)
        for provider, name, op, _, _ in ran
        if provider != first and provider not in known and not is_inserted(name, op)
    ]
    found = _fallback(runner, first, strays, len(ran), allowed)
    busy = sorted({provider for provider, *_ in ran})
    if first != CPU and (assigned is None or first in known) and first not in busy:
        text = (
            f"{first} was asked for, but no node ran on it in the batch that was observed "
            f"(providers with nodes that ran: {', '.join(busy) or 'none'})"
        )
        found.append(Finding("placement.unused", text, _LIBRARIES))
    return found


def is_inserted(name: str, op_type: str) -> bool:
    """Whether a node that ran is a cast or copy that the runtime put in."""
    return op_type in _COPIES or (op_type == "Cast" and name.startswith("Inserted"))


def is_allowed(node: AssignedNode, allowed: Sequence[str]) -> bool:
    """Whether a node's op type or name is in the list."""
    return node.op_type in allowed or (node.name != "" and node.name in allowed)


def _downgraded(name: str, what: str) -> Finding:
    return Finding("placement.downgraded", f"{name} was asked for but {what}", _LIBRARIES)


def _unused(name: str, taken: str) -> Finding:
    where = f"the nodes are {taken}" if taken else "nothing is left to run after folding"
    return Finding(
        "placement.unused",
        f"{name} was asked for but has no node of the model; {where}",
        f"take {name} out of providers, or see why it takes none: {_LIBRARIES}",
    )


def _fallback(
    runner: str, first: str, strays: Sequence[AssignedNode], total: int, allowed: Sequence[str]
) -> list[Finding]:
    outside = [node for node in strays if not is_allowed(node, allowed)]
    if not outside:
        return []
    parts = []
    for provider in sorted({node.provider for node in outside}):
        ops: dict[str, list[str]] = {}
        for node in outside:
            if node.provider == provider:
                ops.setdefault(node.op_type, []).append(node.name)
        parts.append(f"{_tell_ops(ops)} on {provider}")
    some = f" ({len(strays) - len(outside)} more are allowed)" if len(strays) > len(outside) else ""
    is_one = len(outside) == 1
    text = (
        f"{len(outside)} of {total} nodes {'runs' if is_one else 'run'} on another provider than "
        f"{first}: {'; '.join(parts)}{some}"
    )
    wanted = [*dict.fromkeys((*allowed, *sorted({node.op_type for node in outside})))]
    line = f"allowed_fallback = {json.dumps(wanted, ensure_ascii=False)}"
    mend = (
        f"see why {first} doesn't take {'it' if is_one else 'them'}; or, if that is how it ships, "
        f"write in [runners.{runner}]: {line}"
    )
    return [Finding("placement.fallback", text, mend)]


def _tell_ops(ops: Mapping[str, list[str]]) -> str:
    ranked = sorted(ops.items(), key=lambda item: (-len(item[1]), item[0]))
    parts = []
    for op, names in ranked[:_TOLD_OPS]:
        told = [repr(name) for name in names if name][:_TOLD_NAMES]
        more = ", ..." if told and len(names) > len(told) else ""
        parts.append(f"{len(names)} {op}" + (f" ({', '.join(told)}{more})" if told else ""))
    left = len(ranked) - _TOLD_OPS
    return ", ".join(parts) + (f" and {left} more op types" if left > 0 else "")


def describe_assigned(
    requested: Sequence[str],
    in_force: Sequence[str],
    assigned: Sequence[AssignedNode] | None,
    allowed: Sequence[str],
) -> dict[str, object]:
    """What is known of a session before anything ran, of JSON types."""
    told: dict[str, object] = {"requested": list(requested), "in_force": list(in_force)}
    told["assigned"] = None if assigned is None else by_provider(assigned)
    if not is_cpu_only(requested):
        told["allowed_fallback"] = list(allowed)
        told["fallback"] = listed(
            f"{node.label} on {node.provider}{'' if is_allowed(node, allowed) else ', not allowed'}"
            for node in assigned or ()
            if node.provider != requested[0]
        )
    return told


def by_provider(nodes: Iterable[AssignedNode]) -> dict[str, object]:
    """How many nodes, of which op types, each provider has."""
    ops: dict[str, Counter[str]] = {}
    for node in nodes:
        ops.setdefault(node.provider, Counter())[node.op_type] += 1
    return {
        provider: {"nodes": sum(found.values()), "op_types": dict(sorted(found.items()))}
        for provider, found in sorted(ops.items())
    }


def listed(items: Iterable[str]) -> dict[str, object]:
    """How many there are, and the first of them."""
    every = list(items)
    return {"count": len(every), "nodes": every[:MAX_LISTED]}
