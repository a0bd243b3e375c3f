"""Golden packs: Arrow files of prepared samples with immutable ids."""
