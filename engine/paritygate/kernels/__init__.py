"""Compiled loops: arrays in, arrays out. Imports nothing else of paritygate."""
