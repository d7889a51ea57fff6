"""From suspects to a conclusion, and the sentence that says it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msprobe_builder.base.codes import Strength
from msprobe_builder.base.standing import BEFORE
from msprobe_builder.dump.names import parse_name
from msprobe_builder.operators import questions
from msprobe_builder.operators.table import operator_of
from msprobe_builder.verdict.differences.arguments import Argument

FAULT, CLEAN, UNDECIDED = "fault", "clean", "undecided"

OTHER_LAYOUT = (
    "Cannot tell, because the calls of the ranks contradict the layout that parallel_merge"
    " declares, as the warnings of the build say: correct it first."
)

OTHER_BITS = (
    "Cannot tell, because the dumps hold checksums alone, and calls that are given equal bits put"
    " out others as a habit, as on another device: record statistics."
)

NO_NUMBERS = "Cannot tell, because dumps of task structure hold no numbers."

# With fewer of the calls judged than this, nothing found does not mean that there is nothing.
_ENOUGH = 0.5

Told = tuple[Strength, str, str, "str | None"]  # strength, name, evidence, file and line


def conclude(
    suspects: Sequence[Told], compared: int, unjudged: int, choice: str | None
) -> tuple[str, str]:
    """The conclusion and its sentence; ``suspects`` come best first.

    ``compared`` counts the calls that could be judged, ``unjudged`` the others; ``choice`` is the
    first call that chose other indices, or signs, than the reference from inputs that agree.
    """
    known = [one for one in suspects if one[0] is not Strength.NONE]
    if known:
        strength, name, evidence, source = known[0]
        return sentence_of(strength, "", f"{name} ({source})" if source else name, evidence)
    if choice is not None:
        is_turned = questions.any_sign(operator_of(parse_name(choice).stem))
        chosen = "other signs of vectors" if is_turned else "other indices"
        return UNDECIDED, (
            f"Nothing is wrong before {choice}, which chose {chosen} than the reference from "
            "inputs that agree within rounding; cannot tell behind it."
        )
    if not compared:
        return UNDECIDED, "Cannot tell, because no call could be compared."
    if compared < _ENOUGH * (compared + unjudged):
        return UNDECIDED, (
            f"Cannot tell, because only {compared:,} of {compared + unjudged:,} nodes could be "
            "judged; nothing is wrong with those."
        )
    return CLEAN, f"No fault beyond rounding in {compared:,} nodes."


def lacks_numbers(sentence: str) -> bool:
    """Whether a verdict cannot tell for want of statistics, whatever else it says."""
    return sentence.startswith((NO_NUMBERS, OTHER_BITS))


def sentence_of(strength: Strength, where: str, name: str, evidence: str) -> tuple[str, str]:
    """The conclusion that rests on one suspect; ``where`` is its step and rank, if told."""
    said = f"{where}{name}: {evidence}"
    if strength is Strength.STRONG:
        return FAULT, f"{said[0].upper()}{said[1:]}" if said.startswith(BEFORE) else said
    return UNDECIDED, f"Nothing certain; look first at {said}"


def told_of_more(side: int, first: str, nodes: int, *, is_behind: bool) -> str:
    """What the run of one side alone has, from the module ``first`` on."""
    own, other = ("the reference", "this run") if side else ("this run", "the reference")
    if is_behind:
        return (
            f"{other[0].upper()}{other[1:]} ends before {first} of {own}: {nodes:,} nodes that"
            f" follow there were {NOT_JUDGED}"
        )
    return (
        f"{own[0].upper()}{own[1:]} calls {first}, which {other} does not: {nodes:,} nodes"
        f" were {NOT_JUDGED}"
    )


NOT_JUDGED = "not judged."
LEFT_OUT = f"What a dump leaves out of the run was {NOT_JUDGED}"


def told_of_flags(names: Sequence[str], explained: Mapping[int, Sequence[Argument]]) -> str:
    """Which arguments were passed over, because they only say how the ranks of a layer talk."""
    first = min(explained)
    one = explained[first][0]
    return (
        f"Calls whose flags differ as the split of their layer explains: {len(explained):,}; first "
        f"{names[first]}, argument {one.name} is {one.npu}, in the reference {one.bench}."
    )


def told_of_products(names: Sequence[str]) -> str:
    """Which products differ as much as fewer digits of their operands explain."""
    told = " and ".join([*([", ".join(names[:-1])] if names[1:] else []), names[-1]])
    return (
        f"{told[0].upper()}{told[1:]} differ as much as operands rounded to 10 or 11 bits explain"
        " (TF32, HF32); a smaller fault would not show behind them."
    )


def told_of_scale(factor: float) -> str:
    """By how much more one side multiplies its loss."""
    more, less = ("This run", "the reference") if factor > 1 else ("The reference", "this run")
    return (
        f"{more} multiplies its loss by {max(factor, 1 / factor):,.0f} times what {less} does, as"
        " float16 needs it; gradients are judged as if both had scaled alike."
    )


def told_of_norms(
    names: Sequence[str], explained: Collection[int], norms: int, *, is_total: bool
) -> str:
    """Which numbers were passed over, because they are of the parameters that a rank has."""
    told = (
        f"Each rank takes norms of its own parameters: all {norms:,} are of the reference's "
        f"gradients, and {len(explained):,} calls follow from them on every rank; first "
        f"{names[min(explained)]}."
    )
    return told if is_total else f"{told} What other replicas add to the sum was not checked."
