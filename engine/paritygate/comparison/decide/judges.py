"""Which judge derives a decision, and what a rule must say for it."""

from __future__ import annotations

from paritygate.comparison.decide.argmax import ArgmaxJudge
from paritygate.comparison.decide.bands import BandJudge
from paritygate.comparison.decide.base import CompareAs
from paritygate.comparison.decide.equal import EqualJudge
from paritygate.comparison.decide.function import Function, FunctionJudge
from paritygate.comparison.decide.topk import TopkJudge
from paritygate.core.policy import DecisionRule, Tolerance

Ranked = BandJudge | ArgmaxJudge | TopkJudge
Free = EqualJudge | FunctionJudge


def check_kind(rule: DecisionRule, where: str) -> None:
    """Refuse a rule of no kind or of several.

    Raises:
        ValueError: says what to change.
    """
    kinds = (rule.bands, rule.argmax or None, rule.topk, rule.equal or None, rule.python)
    if sum(kind is not None for kind in kinds) != 1:
        raise ValueError(
            f"{where}: needs a rule, exactly one of bands, argmax = true, topk, equal = true and "
            "python"
        )
    if rule.bands is not None and rule.labels is not None:
        raise ValueError(f"{where}: bands are named in the rule itself; remove labels")


def free_judge(
    rule: DecisionRule,
    function: Function | None,
    dtypes: tuple[str, str],
    compare_as: CompareAs,
    where: str,
) -> Free | None:
    """The judge of decisions that are values of any number; None for every other rule.

    Raises:
        ValueError: if the rule can't be applied to these dtypes; says what to change.
    """
    if rule.equal:
        return EqualJudge(rule, *dtypes, compare_as, where)
    if rule.python is None:
        return None
    if function is None:
        raise ValueError(f"{where}: the function {rule.python!r} wasn't loaded")
    return FunctionJudge(rule, function, dtypes[0], compare_as)


def ranked_judge(
    rule: DecisionRule,
    tolerance: Tolerance,
    dtypes: tuple[str, str],
    classes: int,
    compare_as: CompareAs,
    where: str,
) -> Ranked:
    """The judge of bands or ranks.

    Raises:
        ValueError: if the rule can't be applied to these dtypes; says what to change.
    """
    is_one_dtype = dtypes[0] == dtypes[1]
    if rule.bands is not None:
        return BandJudge(rule, tolerance, dtypes[0], compare_as, where, is_one_dtype=is_one_dtype)
    kind = ArgmaxJudge if rule.argmax else TopkJudge
    return kind(rule, classes, tolerance, dtypes[0], compare_as, is_one_dtype=is_one_dtype)
