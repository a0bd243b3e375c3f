"""Runs models once more, to see what ONNX Runtime does with them, in a process that may die of it.

Started as a file, with nothing of paritygate imported. Requests come on stdin: a line of JSON, then
the bytes of the arrays that it lists. Each answer is one line of JSON on the file descriptor that
the command line names. What native code and libraries print goes to one file, emptied before each
request and read after it.
"""

import ctypes
import json
import os
import queue
import resource
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

TEXT_LIMIT = 1 << 18
_PR_SET_PDEATHSIG = 1


def main(answers: int) -> None:
    """Answer requests until stdin ends."""
    leave = _become_small()
    said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    requests: queue.Queue[tuple[dict[str, Any], list[bytes]]] = queue.Queue()
    threading.Thread(target=_read, args=(requests, leave), daemon=True).start()
    import onnxruntime

    while True:
        request, blobs = requests.get()
        leave.folder = request["folder"]
        os.ftruncate(said.fileno(), 0)
        os.lseek(said.fileno(), 0, os.SEEK_SET)
        answer = _observe(onnxruntime, request, blobs)
        sys.stdout.flush()
        sys.stderr.flush()
        size = os.fstat(said.fileno()).st_size
        answer["said"] = os.pread(said.fileno(), TEXT_LIMIT, 0).decode(errors="replace")
        answer["said_cut"] = max(0, size - TEXT_LIMIT)
        line = memoryview(json.dumps(answer).encode() + b"\n")
        while line:
            line = line[os.write(answers, line) :]


class _Leave(threading.Thread):
    """Ends this process when the parent is gone, and takes the parent's folder away."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.folder = ""

    def run(self) -> None:
        signal.sigwait({signal.SIGTERM})
        self.now()

    def now(self) -> None:
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        os._exit(0)


def _become_small() -> _Leave:
    """Be the first to go when memory ends, and end with the parent."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for all threads of the runtime
    leave = _Leave()
    leave.start()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    except (OSError, AttributeError):
        pass
    return leave


def _read(requests: Any, leave: _Leave) -> None:
    stream = sys.stdin.buffer
    while line := stream.readline():
        request = json.loads(line)
        requests.put((request, [stream.read(feed["bytes"]) for feed in request["feeds"]]))
    leave.now()


def _observe(ort: Any, request: dict[str, Any], blobs: list[bytes]) -> dict[str, Any]:
    answer: dict[str, Any] = {"assigned": None, "executed": None, "events": 0, "error": None}
    try:
        answer["version"] = str(ort.__version__)
        session = _session(ort, request)
        answer["in_force"] = session.get_providers()
        answer["assigned"] = _assigned(session)
        _run(ort, session, request, blobs)
        answer["in_force_after"] = session.get_providers()
        answer["executed"], answer["events"] = _read_profile(session.end_profiling())
    except Exception as e:
        answer["error"] = f"{type(e).__name__}: {e}"[:4000]
    return answer


def _session(ort: Any, request: dict[str, Any]) -> Any:
    made = ort.SessionOptions()
    made.graph_optimization_level = getattr(ort.GraphOptimizationLevel, request["level"])
    made.execution_mode = getattr(ort.ExecutionMode, request["mode"])
    made.intra_op_num_threads = request["intra"]
    made.inter_op_num_threads = request["inter"]
    made.log_severity_level = 2
    made.enable_profiling = True
    made.profile_file_prefix = f"{request['folder']}/profile"
    for library in request["libraries"]:
        made.register_custom_ops_library(library)
    for key, value in request["entries"].items():
        made.add_session_config_entry(key, value)
    more = {"disabled_optimizers": request["disabled"]} if request["disabled"] else {}
    session = ort.InferenceSession(
        request["model"],
        made,
        providers=[(name, options) for name, options in request["providers"]],
        enable_fallback=0,
        **more,
    )
    session.disable_fallback()
    return session


def _assigned(session: Any) -> list[list[str]] | None:
    try:
        parts = session.get_provider_graph_assignment_info()
    except Exception:
        return None
    return [[p.ep_name, n.name, n.domain, n.op_type] for p in parts for n in p.get_nodes()]


def _run(ort: Any, session: Any, request: dict[str, Any], blobs: list[bytes]) -> None:
    """One run whose answers nobody reads; texts go in as arrays, all else as bits of its type."""
    import numpy as np

    names = [node.name for node in session.get_outputs()]
    has_texts = any(feed["texts"] is not None for feed in request["feeds"])
    feeds: dict[str, Any] = {}
    for feed, blob in zip(request["feeds"], blobs, strict=True):
        if feed["texts"] is not None:
            array = np.empty(len(feed["texts"]), object)
            array[:] = feed["texts"]
        else:
            array = np.frombuffer(blob, feed["dtype"])
        feeds[feed["name"]] = array.reshape(feed["shape"])
    if has_texts:
        session.run(names, feeds)
        return
    make = ort.OrtValue.ortvalue_from_numpy_with_onnx_type
    elements = {feed["name"]: feed["element"] for feed in request["feeds"]}
    session.run_with_ort_values(names, {k: make(v, elements[k]) for k, v in feeds.items()})


def _read_profile(path: str) -> tuple[list[list[Any]], int]:
    """Executed nodes, each once with how often it ran, and the number of events; one a line."""
    counts: dict[tuple[str, ...], int] = {}
    events = 0
    with Path(path).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if "_kernel_time" not in line:
                continue
            event = json.loads(line.strip().removesuffix("]").rstrip(","))
            if event.get("cat") != "Node" or not event["name"].endswith("_kernel_time"):
                continue
            events += 1
            told = event["args"]
            key = (
                told.get("provider", ""),
                event["name"].removesuffix("_kernel_time"),
                told.get("op_name", ""),
                str(told.get("node_index", "")),
            )
            counts[key] = counts.get(key, 0) + 1
    return [[*key, count] for key, count in counts.items()], events


if __name__ == "__main__":
    main(int(sys.argv[1]))
