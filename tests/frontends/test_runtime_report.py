"""What the report says of runtimes: nodes on providers, and warnings."""

from __future__ import annotations

from typing import Any

from tests.frontends import summaries

from paritygate_frontends.report.screen import plain
from paritygate_frontends.report.verdict import render_report

CPU, NPU = "CPUExecutionProvider", "NpuExecutionProvider"


def lines(**facts: Any) -> list[str]:
    summary = summaries.release(runners={"npu": {"kind": "onnxruntime", **facts}})
    return [line.strip() for line in plain(render_report(summary)).splitlines()]


def test_nodes_are_told_where_there_was_a_choice() -> None:
    placed = {
        "assigned": {CPU: {"nodes": 1}, NPU: {"nodes": 9}},
        "executed": {NPU: {"nodes": 1}},
        "fallback": {"count": 1, "nodes": ["top"]},
    }
    told = lines(placement=placed)
    assert f"npu: nodes assigned: 1 on {CPU}, 9 on {NPU}" in told
    assert f"npu: nodes executed: 1 on {NPU}" in told
    del placed["fallback"]
    assert "Runtimes" not in lines(placement=placed)


def test_warnings_are_told_briefly_and_safely() -> None:
    warnings = [
        {"level": "warning", "text": f"odd\x1b[2J {i} " + "x" * 500, "count": 1 + i}
        for i in range(5)
    ]
    told = lines(warnings=warnings)
    assert "Runtimes" in told
    found = [line for line in told if line.startswith("npu: warning")]
    assert len(found) == 3
    assert found[1].startswith("npu: warning: odd\\x1b[2J 1 xxx")
    assert found[1].endswith("... (2x)")
    assert "npu: 2 more messages of its runtime (summary.json)" in told


def test_many_differences_are_cut() -> None:
    found = [{"what": f"w{i}", "reference": "1", "candidate": "2"} for i in range(9)]
    summary = summaries.release(stages=[summaries.stage(differences=found)])
    text = plain(render_report(summary))
    assert "the sides differ in: w0 1 -> 2; w1 1 -> 2" in text
    assert "; 3 more (summary.json)" in text
