"""Merkle trees over the digests of samples, and proofs that one of them is a leaf.

Leaves and nodes are hashed as in RFC 6962, section 2.1: apart from one another, and a node without
a neighbour is passed on as it is, never doubled.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

_NODE = b"\x01"
_ROOT = b"\x02"
_sha256 = hashlib.sha256


class Tree:
    """The root of leaves that are added one after another, in memory that hardly grows."""

    def __init__(self) -> None:
        self.leaves = 0
        self._waiting: list[bytes | None] = []  # by height: a node that has no neighbour yet

    def add(self, leaves: Sequence[bytes]) -> None:
        """Add leaves, 32 bytes each."""
        self.leaves += len(leaves)
        nodes, height = list(leaves), 0
        while nodes:
            if height == len(self._waiting):
                self._waiting.append(None)
            first = self._waiting[height]
            if first is not None:
                nodes.insert(0, first)
            self._waiting[height] = nodes.pop() if len(nodes) % 2 else None
            pairs = iter(nodes)
            nodes = [
                _sha256(b"".join((_NODE, left, right))).digest()
                for left, right in zip(pairs, pairs, strict=True)
            ]
            height += 1

    def root(self) -> bytes:
        """Root of the leaves so far; of none the hash of nothing."""
        root: bytes | None = None
        for node in self._waiting:
            if node is not None:
                root = node if root is None else _node(node, root)
        return _sha256(b"").digest() if root is None else root


class Proof(Struct, frozen=True):
    """That a sample belongs to a pack: what has to be hashed with it to come to the digest.

    Attributes:
        row: of the sample in the pack.
        samples: of the pack.
        path: the neighbours on the way from the leaf to the root, 32 bytes each.
    """

    row: int
    samples: int
    path: tuple[bytes, ...]

    def digest(self, leaf: bytes) -> str:
        """Content digest of the pack that has this leaf in this row.

        Raises:
            ValueError: a path of another length than a tree of so many leaves has.
        """
        if not 0 <= self.row < self.samples:
            raise ValueError(f"row {self.row} of {self.samples} samples")
        sides = _sides(self.row, self.samples)
        if len(sides) != len(self.path):
            raise ValueError(f"a path of {len(self.path)} where row {self.row} has {len(sides)}")
        node = leaf
        for is_left, other in zip(sides, self.path, strict=True):
            node = _node(other, node) if is_left else _node(node, other)
        return close_tree(self.samples, node)


def close_tree(samples: int, root: bytes) -> str:
    """The content digest, hex: of the root and of the number of leaves, which no root tells."""
    return _sha256(_ROOT + samples.to_bytes(8, "big") + root).hexdigest()


def prove(leaves: Iterable[Sequence[bytes]], row: int, samples: int) -> Proof:
    """The proof for one leaf, in one pass over all of them.

    Args:
        leaves: all of them, in pieces.
        row: the leaf.
        samples: how many leaves there are.
    """
    ranges = _neighbours(row, samples)
    trees = {span: Tree() for span in ranges}
    at = 0
    for piece in leaves:
        for (start, stop), tree in trees.items():
            low, high = max(start, at), min(stop, at + len(piece))
            if low < high:
                tree.add(piece[low - at : high - at])
        at += len(piece)
    return Proof(row, samples, tuple(trees[span].root() for span in ranges))


def _neighbours(row: int, samples: int) -> list[tuple[int, int]]:
    """Leaves `[start, stop)` below each neighbour, from the leaf up."""
    found = []
    low, high = 0, samples
    while high - low > 1:
        middle = low + _half(high - low)
        if row < middle:
            found.append((middle, high))
            high = middle
        else:
            found.append((low, middle))
            low = middle
    return found[::-1]


def _sides(row: int, samples: int) -> list[bool]:
    """Whether each neighbour is on the left, from the leaf up."""
    return [stop <= row for _, stop in _neighbours(row, samples)]


def _half(leaves: int) -> int:
    """The largest power of two below a number of leaves from 2 up."""
    return 1 << ((leaves - 1).bit_length() - 1)


def _node(left: bytes, right: bytes) -> bytes:
    return _sha256(_NODE + left + right).digest()
