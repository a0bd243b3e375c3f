"""Which opsets and IR versions releases of ONNX Runtime take, and what is beyond one of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from msgspec import Struct

# Release -> newest opset of ai.onnx, newest of ai.onnx.ml, newest IR version. Measured with the
# wheels of these releases, since their documentation is off by one in places: what each says that
# it takes at most when it is given a model of a version that nobody knows.
RUNTIMES: Mapping[str, tuple[int, int, int]] = {
    "1.15": (18, 3, 9),
    "1.16": (19, 3, 9),
    "1.17": (20, 4, 9),
    "1.18": (21, 5, 10),
    "1.19": (21, 5, 10),
    "1.20": (21, 5, 10),
    "1.21": (22, 5, 10),
    "1.22": (22, 5, 10),
    "1.23": (23, 5, 11),
    "1.24": (25, 5, 13),
    "1.25": (26, 5, 13),
    "1.26": (26, 5, 13),
    "1.27": (26, 5, 13),
    "1.28": (26, 5, 13),
    "1.29": (26, 5, 13),
    "1.30": (26, 5, 13),
    "1.31": (26, 5, 13),
    "1.32": (28, 5, 14),
}
_RELEASE = re.compile(r"(\d+\.\d+)(\.\d+)?")


class Target(Struct, frozen=True):
    """A runtime that isn't here; None: no limit of this kind is known or given.

    Attributes:
        name: in messages.
        max_opset: newest opset of `ai.onnx`.
        max_ml_opset: newest opset of `ai.onnx.ml`.
        max_ir: newest IR version.
    """

    name: str
    max_opset: int | None
    max_ml_opset: int | None
    max_ir: int | None

    @staticmethod
    def of(
        onnxruntime: str | None = None, max_opset: int | None = None, max_ir: int | None = None
    ) -> Target:
        """Of a release, of limits, or of both, of which the lower ones count.

        Raises:
            ValueError: nothing is given, or a release whose limits aren't known.
        """
        if onnxruntime is None and max_opset is None and max_ir is None:
            raise ValueError("say onnxruntime, max_opset or max_ir")
        opset, ml, ir = _limits(onnxruntime) if onnxruntime is not None else (None, None, None)
        name = f"onnxruntime {onnxruntime}" if onnxruntime is not None else "the target"
        return Target(name, _least(opset, max_opset), ml, _least(ir, max_ir))

    def beyond(self, ir_version: int, opsets: Mapping[str, int]) -> Iterator[str]:
        """What of a model is beyond it, each as a sentence without a stop."""
        for what, has, most in (
            ("IR version", ir_version, self.max_ir),
            ("opset", opsets.get("ai.onnx", 0), self.max_opset),
            ("opset of ai.onnx.ml", opsets.get("ai.onnx.ml", 0), self.max_ml_opset),
        ):
            if most is not None and has > most:
                yield f"the model has {what} {has}, and {self.name} takes up to {most}"


def _limits(release: str) -> tuple[int, int, int]:
    found = _RELEASE.fullmatch(release)
    known = RUNTIMES.get(found.group(1)) if found else None
    if known is None:
        first, last = next(iter(RUNTIMES)), list(RUNTIMES)[-1]
        raise ValueError(
            f"onnxruntime {release!r} isn't a release whose limits are known here ({first} to "
            f"{last}); say max_opset and max_ir instead"
        )
    return known


def _least(*limits: int | None) -> int | None:
    return min((limit for limit in limits if limit is not None), default=None)
