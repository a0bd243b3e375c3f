"""Options of `torch` runners."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt, StrictStr, field_validator, model_validator

from paritygate.core.forms import CALL
from paritygate.runners.options import RunnerOptions, check_mapping

_DEVICE = re.compile(r"cpu|cuda(:\d+)?")
Path = Annotated[StrictStr, Field(min_length=1)]


class Options(RunnerOptions):
    """`[runners.NAME]` of kind `torch`: a `model` file, or a `factory` with or without `weights`.

    Attributes:
        model: a TorchScript file or an exported program.
        factory: `module:function` that returns an `nn.Module`, looked up in the plan's folder
            first; it is the user's own code and may do anything.
        weights: safetensors, or a state dict as `torch.save` writes it; loaded strictly.
        weights_key: of the state dict in a file that holds more than it.
        sha256: what the digest of `model`, or of `weights`, must be.
        submodule: dotted name of the module that is judged, in place of the whole.
        reset: method, without arguments, that is called before every batch.
        batch_size: rows of a batch; None: what the program fixes, or else 256.
        device: "cpu", "cuda" or "cuda:N".
        intra_op_num_threads: threads inside an operator; 0 lets torch decide.
        deterministic: torch's deterministic algorithms alone.
        tf32: whether float32 may be calculated in TensorFloat-32 on a GPU.
        seed: of torch's generators, set when the runner is made.
        thread_safe: several batches may run at once; None: where the program is known to allow it.
        inputs: our name -> the program's, where they differ.
        outputs: names in the order of the answer's tensors; or our name -> the answer's.
    """

    model: Path | None = None
    factory: StrictStr | None = None
    weights: Path | None = None
    weights_key: StrictStr | None = None
    sha256: Annotated[StrictStr, Field(pattern=r"^[0-9a-fA-F]{64}$")] | None = None
    submodule: Annotated[StrictStr, Field(min_length=1)] | None = None
    reset: Annotated[StrictStr, Field(min_length=1)] | None = None
    batch_size: Annotated[StrictInt, Field(ge=1)] | None = None
    device: StrictStr = "cpu"
    intra_op_num_threads: Annotated[StrictInt, Field(ge=0)] = 1
    deterministic: StrictBool = True
    tf32: StrictBool = False
    seed: Annotated[StrictInt, Field(ge=0, lt=2**63)] = 0
    thread_safe: StrictBool | None = None
    inputs: dict[StrictStr, StrictStr] = Field(default={})
    outputs: dict[StrictStr, StrictStr] | tuple[StrictStr, ...] = ()

    @field_validator("factory")
    @classmethod
    def _module_and_function(cls, value: str | None) -> str | None:
        if value is not None and not CALL.fullmatch(value):
            raise ValueError("write it as 'module:function'")
        return value

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str) -> str:
        if not _DEVICE.fullmatch(value):
            raise ValueError('is "cpu", "cuda" or "cuda:N"')
        return value

    @field_validator("outputs", mode="before")
    @classmethod
    def _one_or_more(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("inputs", "outputs")
    @classmethod
    def _one_to_one(cls, value: Any) -> Any:
        if isinstance(value, dict):
            check_mapping(value, "tensor of the program")
        elif len(set(value)) != len(value):
            raise ValueError("names an output twice, of which one would be lost")
        return value

    @model_validator(mode="after")
    def _one_source(self) -> Options:
        if (self.model is None) == (self.factory is None):
            raise ValueError(
                "give either model (a TorchScript file or an exported program) or factory "
                "('module:function' that makes the module)"
            )
        if self.weights is not None and self.factory is None:
            raise ValueError("weights need a factory that makes the module they belong to")
        if self.weights_key is not None and self.weights is None:
            raise ValueError("weights_key is of a file of weights; name it")
        if self.sha256 is not None and self.model is None and self.weights is None:
            raise ValueError("sha256 is of model or weights; name one")
        return self
