"""What to look at first: the first bad row in order of execution, and what that may mean."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from msprobe_builder.base.codes import Section
from msprobe_builder.facts.fact import Fact, Facts, fact, plain
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.tables.saved_values import ENDING

# Operators whose result may differ from run to run unless they are told not to.
_CHOOSE_AN_ALGORITHM = ("conv2d", "conv3d", "matmul", "nll_loss", "layer_norm", "lstm")


@dataclass(frozen=True)
class Advice:
    """``line`` is that of the sheet, whose first line holds the names of the columns."""

    line: int | None
    suspect: str | None
    advice: Fact
    verdict: Facts | None = None  # on this step and rank, of a file that has one
    evidence: tuple[Facts, ...] = ()  # of each suspect


def all_good(compared: int, rows: int) -> Advice:
    """What is said where no row is bad: of how many rows that is known."""
    if not compared:
        return Advice(None, None, fact("advice.nothing_compared", rows=rows))
    return Advice(None, None, fact("advice.all_good", compared=compared, rows=rows))


def advice_on(line: int, name: str, section: int) -> Advice:
    """Advice on the first bad row."""
    if ENDING in name:
        return Advice(line, name, fact("advice.saved"))
    is_backward = ".backward." in f"{name}." or section == Section.PARAMETERS_GRAD
    operator = name.split(".")[1].lower() if name.count(".") > 1 else name
    if section in (Section.INPUT, Section.PARAMETERS) and not is_backward:
        is_input = section == Section.INPUT
        what = fact("advice.input" if is_input else "advice.parameter")
    elif section == Section.INPUT:
        what = fact("advice.gradient")
    elif any(word in operator for word in _CHOOSE_AN_ALGORITHM):
        what = fact("advice.deterministic")
    else:
        # Limits that what it was given keeps need not mean that it is equal.
        what = fact("advice.backward_call" if is_backward else "advice.call")
    return Advice(line, name, what)


def with_verdict(advice: Advice, verdict: Facts, evidence: tuple[Facts, ...]) -> Advice:
    """The verdict beside the advice, which says no longer that all is good where it accuses."""
    said = fact("advice.no_line") if advice.line is None and evidence else advice.advice
    return replace(advice, advice=said, verdict=verdict, evidence=evidence)


def advice_text(advice: Advice) -> str:
    """The lines of an advice file: the three documented ones, then the verdict.

    Their titles are documented, too; what they say is in the language spoken.
    """
    lines = [
        f"Line: {'NA' if advice.line is None else advice.line}",
        f"Suspect Nodes: {advice.suspect or 'NA'}",
        f"Expert Advice: {tell(advice.advice)}",
        *(() if advice.verdict is None else [f"Verdict: {tell(advice.verdict)}"]),
        *(f"Evidence: {tell(evidence)}" for evidence in advice.evidence),
    ]
    return "".join(f"{line}\n" for line in lines)


def advice_json(advice: Advice) -> str:
    """The same for a program: in English, and as facts."""
    verdict = advice.verdict
    content = {
        "line": advice.line,
        "suspect": advice.suspect,
        "advice": tell(advice.advice, ENGLISH),
        "verdict": None if verdict is None else tell(verdict, ENGLISH),
        "evidence": [tell(evidence, ENGLISH) for evidence in advice.evidence],
        "facts": {
            "advice": plain([advice.advice]),
            "verdict": None if verdict is None else plain(verdict),
            "evidence": [plain(evidence) for evidence in advice.evidence],
        },
    }
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"
