"""Comparison of a reference's outputs with a candidate's."""
