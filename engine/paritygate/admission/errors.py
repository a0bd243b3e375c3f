"""What keeps a model, or a file that belongs to one, from being loaded."""

from __future__ import annotations

from paritygate.core.errors import ParityError


class AdmissionError(ParityError):
    """A model that must not be loaded, or that can't be copied to its private place.

    Attributes:
        is_machine_fault: it says nothing about the model: no space, a file that changed while it
            was copied, a plan that names another digest.
    """

    code = "admission.invalid_model"

    def __init__(
        self, message: str, code: str | None = None, *, is_machine_fault: bool = False
    ) -> None:
        super().__init__(message)
        self.is_machine_fault = is_machine_fault
        if code is not None:
            self.code = code


def staging_error(message: str) -> AdmissionError:
    """No private place, or no room in it."""
    return AdmissionError(message, "admission.staging", is_machine_fault=True)
