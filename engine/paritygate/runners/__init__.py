"""Whatever maps a batch of inputs to named outputs, on one protocol (`base`)."""
