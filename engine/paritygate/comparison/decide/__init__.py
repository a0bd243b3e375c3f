"""One file a kind of decision."""
