"""Structure check of a model by onnx.checker, in a child process: the checker itself can crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from msgspec import Struct

from paritygate.core.errors import FolderError

TIMEOUT_S = 120.0
_CHILD = Path(__file__).with_name("_child.py")
_STDERR_SHOWN = 500


class CheckResult(Struct, frozen=True):
    """Whether a model is well-formed, and otherwise one sentence that says what is wrong.

    Attributes:
        ok: it is well-formed.
        message: what is wrong.
        is_judged: False where the check itself failed, which says nothing about the model.
    """

    ok: bool
    message: str
    is_judged: bool = True


class PendingCheck:
    """A check that runs in a child process; several may run at once.

    Attributes:
        path: the model under check.
        shown: its name in messages.
    """

    def __init__(
        self, path: Path, timeout_s: float, command: list[str], shown: Path | None = None
    ) -> None:
        self.path = path
        self.shown = shown or path
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._result: CheckResult | None = None
        self._stdout = _temporary()  # closed by cancel()
        self._stderr = _temporary()
        modules = os.pathsep.join(p for p in sys.path if p)
        # NumPy's OpenBLAS keeps a core busy for 0.1 s as soon as it has threads; none is needed.
        env = {"OPENBLAS_NUM_THREADS": "1", **os.environ, "PYTHONPATH": modules}
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
            env=env,
        )

    def result(self) -> CheckResult:
        """Wait for the answer; a child that takes too long is killed."""
        if self._result is None:
            try:
                left = max(0.0, self._deadline - time.monotonic())
                code = self._process.wait(timeout=left)
                self._result = self._classify(code)
            except subprocess.TimeoutExpired:
                self._result = CheckResult(
                    False, f"{self.shown}: onnx.checker didn't finish in {self._timeout_s:g} s"
                )
            finally:
                self.cancel()
        return self._result

    def cancel(self) -> None:
        """Stop the child, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._stdout.close()
        self._stderr.close()

    def _classify(self, code: int) -> CheckResult:
        if code < 0:
            name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
            return self._failed(f"onnx.checker crashed ({name})")
        try:
            self._stdout.seek(0)
            answer = json.loads(self._stdout.read())
            ok, message = answer["ok"] is True and code == 0, str(answer["message"])
        except (ValueError, KeyError, TypeError):
            return self._failed(
                f"the structure check ended with exit code {code} and no answer", is_judged=False
            )
        if ok:
            return CheckResult(True, "")
        if not message:
            return self._failed(f"the structure check ended with exit code {code}")
        return CheckResult(False, f"{self.shown}: {self._in_words_of_the_plan(message)}")

    def _failed(self, what: str, *, is_judged: bool = True) -> CheckResult:
        self._stderr.seek(0)
        text = self._stderr.read(1 << 16).decode(errors="replace").strip()
        tail = f": {text[-_STDERR_SHOWN:]}" if text else ""
        return CheckResult(False, f"{self.shown}: {what}{tail}", is_judged)

    def _in_words_of_the_plan(self, message: str) -> str:
        """On one line, and naming the file that the plan names."""
        text = message.replace(str(self.path), str(self.shown))
        return " ".join(text.replace(str(self.path.parent), str(self.shown.parent)).split())


def _temporary() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as e:
        raise FolderError(
            f"no temporary file can be written ({e.strerror or e}); free space there, or name "
            "another folder in TMPDIR"
        ) from e


def start_check(
    path: Path, timeout_s: float = TIMEOUT_S, shown: Path | None = None
) -> PendingCheck:
    """Start `onnx.checker.check_model(path, full_check=True)` in a child process.

    Args:
        path: the model, with its external data as plain files beside it.
        timeout_s: seconds after which the child is killed.
        shown: the model's name in messages, where it isn't `path`.
    """
    # -P: the child's own folder has modules whose names would hide others.
    return PendingCheck(path, timeout_s, [sys.executable, "-P", str(_CHILD), str(path)], shown)


def check_model(path: Path, timeout_s: float = TIMEOUT_S) -> CheckResult:
    """Check a model's structure and wait for the answer."""
    return start_check(path, timeout_s).result()
