"""Golden packs: Arrow files of prepared samples with immutable ids."""

SUFFIXES = (".arrow", ".arrows", ".feather", ".ipc", ".parquet", ".pq")
