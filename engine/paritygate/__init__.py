"""Release or hold: compares a candidate model with its reference over golden samples."""
