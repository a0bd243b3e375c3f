"""Work in forks: a crash ends one of them only, and they share what was imported."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable


def in_fork(work: Callable[[], object]) -> int:
    """Exit code of a fork in which something was done; 1 if it raised, negative after a signal."""
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
