"""Forms of texts in a plan, by themselves: what runs one runner needs no plan."""

from __future__ import annotations

import re

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CALL = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
NO_COLUMNS = "is empty; name raw columns, or leave it out for all of them"
