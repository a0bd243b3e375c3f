"""What a model is and whether it may be loaded: identity, structure, external data."""
