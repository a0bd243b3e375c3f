"""Mergeable statistics of blocks; merging is associative and commutative, bit for bit."""
