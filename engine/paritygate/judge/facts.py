"""What the judge is told beside the tallies."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct, field

from paritygate.core.plan import Plan, Stage
from paritygate.core.probes import Probes
from paritygate.core.verdict import Reason, Verdict
from paritygate.golden.overlap import Overlap
from paritygate.runners.base import Finding
from paritygate.tally.coupling import Consistency
from paritygate.tally.coverage import CoverageTally, Number
from paritygate.tally.noise import Noise
from paritygate.tally.stage import StageTally

SampleId = int | str
Locate = Callable[[int], SampleId]


class SideFacts(Struct, frozen=True):
    """One side of a stage.

    Attributes:
        name: runner's name in the plan.
        identity: digest, equal for two runners that are the same thing; "" where it didn't load.
        findings: what holds the run whatever the numbers say.
        load_failure: code and text of why it didn't load; None if it did.
        load_detail: all that the runtime said of it, where the text is shorter.
        facts: what is known of it, for the list of what was not judged.
    """

    name: str
    identity: str = ""
    findings: Sequence[Finding] = ()
    load_failure: tuple[str, str] | None = None
    facts: Mapping[str, object] = field(default_factory=dict)
    load_detail: str = ""


class StageFacts(Struct, frozen=True):
    """One stage: its sides, its tally (None: it didn't run), and the names of decision codes."""

    stage: Stage
    ref: SideFacts
    cand: SideFacts
    tally: StageTally | None
    decision_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class RunFacts(Struct, frozen=True):
    """A whole run.

    Attributes:
        samples: samples of the golden pack.
        asked: samples that this run was asked to judge.
        stages: the stages that were asked for.
        locate: ordinal -> sample id.
        changed: files that were written, replaced or removed while they were judged.
        notes: further things that were not judged.
        consistency: what the runners did by themselves.
        overlap: golden samples that are also in the calibration pack; None: the plan names none.
        rejections: id and violation of the first samples that were not run.
        noise: how far the references differ from themselves.
        coverage: what the samples that were run exercise.
        all_synthetic: every sample of the pack is marked as no acceptance evidence.
        ranges: input -> smallest and largest number of its dtype in its range, or in that of each
            channel.
        probes: what contract and runners did with what can't be a row of a pack.
    """

    plan: Plan
    samples: int
    asked: int
    stages: Sequence[StageFacts]
    locate: Locate
    changed: Sequence[str] = ()
    notes: Sequence[str] = ()
    consistency: Consistency = field(default_factory=Consistency)
    overlap: Overlap | None = None
    noise: Noise = field(default_factory=Noise)
    coverage: CoverageTally = field(default_factory=CoverageTally)
    all_synthetic: bool = False
    ranges: Mapping[str, Sequence[tuple[Number, Number]]] = field(default_factory=dict)
    probes: Probes = field(default_factory=Probes)
    rejections: Sequence[tuple[SampleId, str]] = ()


class Judgement(Struct, frozen=True):
    """The verdict, why, each stage's verdict, and what was not judged."""

    verdict: Verdict
    reasons: tuple[Reason, ...]
    stages: Mapping[str, Verdict]
    not_judged: tuple[str, ...]
