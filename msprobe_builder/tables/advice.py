"""What to look at first: the first bad row in order of execution, and what that may mean."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace

from msprobe_builder.base.codes import Section
from msprobe_builder.tables.saved_values import ENDING

# Operators whose result may differ from run to run unless they are told not to.
_CHOOSE_AN_ALGORITHM = ("conv2d", "conv3d", "matmul", "nll_loss", "layer_norm", "lstm")
_ALL_GOOD = "Every value that was compared meets the requirements."
_NO_LINE = "No line breaks the documented limits, but the verdict on this run names a suspect."
_DETERMINISTIC = (
    "The order of additions in this operator may differ between runs: compare again with"
    " deterministic algorithms switched on."
)
# Limits that what it was given keeps need not mean that it is equal.
_WITHIN = "What it was given is within the documented limits, this is not: check how "
_OR_GIVEN = " is implemented, and whether its inputs differ within the limits."
_SAVED = (
    "Of the saved values this one differs first: look at the code between the one saved before it"
    " and it, and save more values there."
)


@dataclass(frozen=True)
class Advice:
    """``line`` is that of the sheet, whose first line holds the names of the columns."""

    line: int | None
    suspect: str | None
    advice: str
    verdict: str | None = None  # on this step and rank, of a file that has one
    evidence: tuple[str, ...] = ()


def advice_on(line: int | None, name: str, section: int) -> Advice:
    """Advice on the first bad row; without one all is good."""
    if line is None:
        return Advice(None, None, _ALL_GOOD)
    if ENDING in name:
        return Advice(line, name, _SAVED)
    is_backward = ".backward." in f"{name}." or section == Section.PARAMETERS_GRAD
    operator = name.split(".")[1].lower() if name.count(".") > 1 else name
    if section in (Section.INPUT, Section.PARAMETERS) and not is_backward:
        what = (
            "It came in wrong: look at the call that made it, or at one that wrote over it."
            if section == Section.INPUT
            else "A parameter differs before it is used: check initialisation, checkpoint and the"
            " optimizer's last step."
        )
    elif section == Section.INPUT:
        what = "The gradient came in wrong: check the forward results first, then the loss."
    elif any(word in operator for word in _CHOOSE_AN_ALGORITHM):
        what = _DETERMINISTIC
    elif is_backward:
        what = f"{_WITHIN}the backward pass of this call{_OR_GIVEN}"
    else:
        what = f"{_WITHIN}this call{_OR_GIVEN}"
    return Advice(line, name, what)


def with_verdict(advice: Advice, sentence: str, evidence: tuple[str, ...]) -> Advice:
    """The verdict beside the advice, which says no longer that all is good where it accuses."""
    words = _NO_LINE if advice.line is None and evidence else advice.advice
    return replace(advice, advice=words, verdict=sentence, evidence=evidence)


def advice_text(advice: Advice) -> str:
    """The lines of an advice file: the three documented ones, then the verdict."""
    line = "NA" if advice.line is None else advice.line
    return (
        f"Line: {line}\nSuspect Nodes: {advice.suspect or 'NA'}\nExpert Advice: {advice.advice}\n"
        + ("" if advice.verdict is None else f"Verdict: {advice.verdict}\n")
        + "".join(f"Evidence: {evidence}\n" for evidence in advice.evidence)
    )


def advice_json(advice: Advice) -> str:
    """The same for a program."""
    return json.dumps(asdict(advice), ensure_ascii=False, indent=2) + "\n"
