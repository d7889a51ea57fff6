"""From suspects to a conclusion, and what is said of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msprobe_builder.base.codes import Strength
from msprobe_builder.dump.names import parse_name
from msprobe_builder.facts.fact import Fact, Facts, fact, has_code
from msprobe_builder.facts.words import THE_REFERENCE, THIS_RUN
from msprobe_builder.operators import questions
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.arguments import Argument

FAULT, CLEAN, UNDECIDED = "fault", "clean", "undecided"

OTHER_LAYOUT = fact("cannot_tell.other_layout")
OTHER_BITS = fact("cannot_tell.other_bits")
NO_NUMBERS = fact("cannot_tell.no_numbers")
LEFT_OUT = fact("not_judged.left_out")

# What says that a part of a run was not judged.
NOT_JUDGED = ("not_judged.left_out", "not_judged.ends_before", "not_judged.calls_more")

# With fewer of the calls judged than this, nothing found does not mean that there is nothing.
_ENOUGH = 0.5

Told = tuple[Strength, "Fact | str", Facts, "str | None"]  # strength, name, evidence, file and line


def conclude(
    suspects: Sequence[Told], compared: int, unjudged: int, choice: str | None
) -> tuple[str, Facts]:
    """The conclusion and what is said of it; ``suspects`` come best first.

    ``compared`` counts the calls that could be judged, ``unjudged`` the others; ``choice`` is the
    first call that chose other indices, or signs, than the reference from inputs that agree.
    """
    known = [one for one in suspects if one[0] is not Strength.NONE]
    if known:
        strength, name, evidence, source = known[0]
        return accuse(strength, None, name, source, evidence)
    if choice is not None:
        has_any_sign = questions.any_sign(operator_of(parse_name(choice).stem))
        code = "chose_otherwise.signs" if has_any_sign else "chose_otherwise.indices"
        return UNDECIDED, (fact(code, name=choice),)
    if not compared:
        return UNDECIDED, (fact("cannot_tell.no_call"),)
    if compared < _ENOUGH * (compared + unjudged):
        nodes = compared + unjudged
        return UNDECIDED, (fact("cannot_tell.few_calls", judged=compared, nodes=nodes),)
    return CLEAN, (fact("clean", nodes=compared),)


def lacks_numbers(said: Facts) -> bool:
    """Whether a verdict cannot tell for want of statistics, whatever else it says."""
    return has_code(said, NO_NUMBERS.code, OTHER_BITS.code)


def accuse(
    strength: Strength, at: Fact | None, name: Fact | str, source: str | None, evidence: Facts
) -> tuple[str, Facts]:
    """The conclusion that rests on one suspect; ``at`` is its step and rank, if told."""
    line = None if source is None else fact("accused.source", line=source)
    if strength is not Strength.STRONG:
        return UNDECIDED, (fact("look_first", at=at, name=name, source=line), *evidence)
    if at is None and isinstance(name, Fact) and name.code == "accused.before":
        name = fact("accused.before_first", name=name["name"])
    return FAULT, (fact("accused", at=at, name=name, source=line), *evidence)


def told_of_more(side: int, first: str, nodes: int, *, is_behind: bool) -> Fact:
    """What the run of one side alone has, from the module ``first`` on."""
    own, other = (THE_REFERENCE, THIS_RUN) if side else (THIS_RUN, THE_REFERENCE)
    if is_behind:
        return fact("not_judged.ends_before", own=own, other=other, name=first, nodes=nodes)
    return fact("not_judged.calls_more", own=own, other=other, name=first, nodes=nodes)


def told_of_flags(names: Sequence[str], explained: Mapping[int, Sequence[Argument]]) -> Fact:
    """Which arguments were passed over, because they only say how the ranks of a layer talk."""
    first = min(explained)
    one = explained[first][0]
    return fact(
        "flags_of_split",
        calls=len(explained),
        name=names[first],
        argument=one.name,
        own=one.npu,
        theirs=one.bench,
    )


def told_of_products(products: Sequence[Fact]) -> Fact:
    """Which products differ as much as fewer digits of their operands explain."""
    return fact("reduced_products", products=fact("several", names=products))


def told_of_scale(factor: float) -> Fact:
    """By how much more one side multiplies its loss."""
    more, less = (THIS_RUN, THE_REFERENCE) if factor > 1 else (THE_REFERENCE, THIS_RUN)
    return fact("loss_scale", more=more, less=less, times=round(max(factor, 1 / factor)))


def told_of_norms(
    names: Sequence[str], explained: Collection[int], norms: int, *, is_total: bool
) -> Facts:
    """Which numbers were passed over, because they are of the parameters that a rank has."""
    first = names[min(explained)]
    told = fact("norms_of_own", norms=norms, calls=len(explained), name=first)
    return (told,) if is_total else (told, fact("norms_of_own.not_total"))
