"""Give a runner what no contract admits, and tell what it does with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from paritygate.core.probes import Outcome
from paritygate.core.tensors import Array, Batch
from paritygate.core.text import clean
from paritygate.runners.base import Runner
from paritygate.runners.viewed import ViewedRunner

_LONGEST = 300


def try_out(runner: Runner, inputs: Mapping[str, Array], size: int) -> tuple[Outcome, str]:
    """What a runner does with inputs; whatever it raises is its refusal.

    A runner that has `answer_raw(inputs)` is called by it, without the checks of its border.

    Args:
        runner: made ready in this process, which it may end.
        inputs: name -> `(size, *sample_shape)`, of any rank and dtype.
        size: samples that they are meant to be.
    """
    inner = runner.inner if isinstance(runner, ViewedRunner) else runner
    raw = getattr(inner, "answer_raw", None)
    try:
        answer = raw(inputs) if raw is not None else _answer(inner, inputs, size)
        return "accepted", _describe(answer)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:
        text = clean(" ".join(f"{type(e).__name__}: {e}".split()))
        return "refused", text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _answer(runner: Runner, inputs: Mapping[str, Array], size: int) -> Mapping[str, Any]:
    session = runner.session()
    try:
        batch = Batch(0, 0, 0, size, size, np.arange(size), inputs)
        with session.run(batch) as lease:
            return dict(lease.outputs)
    finally:
        session.close()


def _describe(answer: Mapping[str, Any]) -> str:
    told = [f"{name} {_shape(value)}" for name, value in answer.items()]
    return f"answered {', '.join(told) or 'nothing'}"[:_LONGEST]


def _shape(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    return f"of {len(value)} arrays" if hasattr(value, "__len__") else type(value).__name__
