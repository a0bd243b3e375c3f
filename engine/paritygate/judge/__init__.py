"""From tallies and policy to verdicts and the sentences that explain them."""

from paritygate.judge.facts import Judgement, RunFacts, SideFacts, StageFacts
from paritygate.judge.judge import judge

__all__ = ["Judgement", "RunFacts", "SideFacts", "StageFacts", "judge"]
