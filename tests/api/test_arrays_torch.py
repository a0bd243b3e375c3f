"""`assert_parity` of tensors of torch, whatever NumPy makes of them."""

from __future__ import annotations

import pytest

import paritygate

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "int8", "bool"])
def test_tensors_of_any_dtype_are_compared(dtype: str) -> None:
    kind = getattr(torch, dtype)
    ref, cand = torch.ones(2, 3).to(kind), torch.ones(2, 3).to(kind)
    paritygate.assert_parity(ref, cand, atol=0.0, rtol=0.0)
    cand[1, 2] = 0
    with pytest.raises(AssertionError, match="1 of 6 elements"):
        paritygate.assert_parity({"y": ref}, {"y": cand}, atol=0.0, rtol=0.0)


def test_what_no_array_is_made_of_is_told() -> None:
    weight = torch.nn.Linear(2, 2).weight
    paritygate.assert_parity(weight, weight.detach().numpy(), atol=0.0, rtol=0.0)
    with pytest.raises(TypeError, match="sparse tensor"):
        paritygate.assert_parity(torch.eye(2).to_sparse(), torch.eye(2), atol=0.0, rtol=0.0)
