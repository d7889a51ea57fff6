"""From the step at which two runs part to the call that is wrong, one record after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from msprobe_bisect.proof import Proof, Proven, prove
from msprobe_bisect.runs import Runner, Stage
from msprobe_bisect.traces import Part, Parting, gradients_agree, parting
from msprobe_builder import BuildConfig, build
from msprobe_builder.base.codes import Kind
from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.matches import matched_names
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict

_MOST_ROUNDS = 3  # of tensors
_MOST_PROOFS = 5
_CALLS: dict[str, Any] = {
    "task": "statistics",
    "level": "mix",
    "statistics": {"summary_mode": "sketch"},
}


@dataclass(frozen=True)
class Found:
    """What a search has found; ``culprit`` is a call, or a part of the step."""

    conclusion: str  # fault, clean, undecided
    sentence: str
    step: int | None = None
    culprit: str = ""
    cause: str = ""
    proven: Proven | None = None
    database: Path | None = None
    remarks: tuple[str, ...] = field(default=())


def search(runner: Runner, steps: int, say: Callable[[str], None]) -> Found:
    """Go from traces to a proof. BuildError where a run or a build fails, SpentError."""
    traced = Stage("trace", "a line for each step", {"step": list(range(steps))}, trace=True)
    sides = runner.record(traced)
    first = parting(sides["npu"], sides["bench"])
    remarks = (first.remark,) if first.remark else ()
    if first.part is Part.NOTHING:
        same = f"No fault: {first.compared} steps are the same to the last bit."
        if first.left_out:
            same += f" {first.left_out} more are of one run alone and were not compared."
        return Found("clean", same, remarks=remarks)
    where = f"Step {first.step}" + (f" of rank {first.rank}" if first.rank else "")
    say(f"{where}: {first.part.value}: {first.what}")
    if first.part not in (Part.VALUES,) and first.is_sure:
        return Found(
            "fault",
            f"{where}: {_TOLD[first.part].format(what=first.what)}",
            first.step,
            first.part.value,
            first.part.value,
            remarks=remarks,
        )
    return _in_calls(runner, first, remarks, say)


_TOLD = {
    Part.DATA: "The runs are given other data: {what} differs.",
    Part.WEIGHTS: "The runs begin with other weights: {what}.",
    Part.SETTINGS: "Outputs and gradients agree, the optimizer is set otherwise: {what}.",
    Part.UPDATE: "Outputs, gradients and settings agree, other updates are made: {what}.",
}


_BEHIND_BACKWARD = (
    "All calls agree, and gradients as backward leaves them; the optimizer is given others: {what}."
    " What is done to them behind backward, such as clipping or scaling, differs."
)


def _in_calls(
    runner: Runner, first: Parting, remarks: tuple[str, ...], say: Callable[[str], None]
) -> Found:
    config: Mapping[str, Any] = {**_CALLS, "step": [first.step]}
    stage = Stage("calls", "statistics and sketches of all calls", config)
    sides = runner.record(stage)
    database = _built(runner, stage.name, sides)
    verdict = _verdict(database)
    say(verdict.sentence)
    if verdict.conclusion == "clean":
        if first.is_sure and first.is_of_gradients and gradients_agree(sides, first.step):
            sentence = f"Step {first.step}: {_BEHIND_BACKWARD.format(what=first.what)}"
            return Found(
                *("fault", sentence, first.step, "gradients", "gradients"),
                database=database,
                remarks=remarks,
            )
        return Found("clean", verdict.sentence, first.step, database=database, remarks=remarks)
    rounds = [(verdict, database, sides)]
    for number in range(1, _MOST_ROUNDS + 1):
        proposal = rounds[-1][0].next_dump
        if proposal is None:
            break
        stage = Stage(f"tensors{number}", "tensors of the calls that remain", proposal["config"])
        sides = runner.record(stage)
        database = _built(runner, stage.name, sides)
        verdict = _verdict(database)
        say(verdict.sentence)
        rounds.append((verdict, database, sides))
    return _proven(first, rounds, remarks, say)


def _proven(
    first: Parting,
    rounds: list[tuple[Verdict, Path, dict[str, Path]]],
    remarks: tuple[str, ...],
    say: Callable[[str], None],
) -> Found:
    """The suspects of the last record, then those of the ones before, until one is proven."""
    tried: dict[tuple[str, str], Proven] = {}
    sides = rounds[-1][2]
    for verdict, database, _ in reversed(rounds):
        partners = _partners(database)
        for suspect in verdict.suspects:
            name, direction = _call_of(suspect)
            if not name or (name, direction) in tried or len(tried) >= _MOST_PROOFS:
                continue
            places = [_place(sides[side], suspect) for side in ("npu", "bench")]
            other = partners.get(suspect.node, "").removesuffix(f".{direction}") or None
            if suspect.side == "bench":
                other = name  # it is the reference's: there may be no other
            proven = tried[name, direction] = prove((name, other), direction, *places)
            say(proven.sentence)
            if proven.proof in (Proof.OPERATOR, Proof.REFERENCE, Proof.BOTH, Proof.ARGUMENT):
                sentence = f"{proven.sentence} {suspect.evidence}"
                return Found(
                    "fault", sentence, suspect.step, name, suspect.cause, proven, database, remarks
                )
    verdict, database, _ = next(
        (found for found in reversed(rounds) if _is_fault(found[0], found is rounds[0])),
        rounds[0] if rounds[-1][0].conclusion == "fault" else rounds[-1],
    )
    if verdict.conclusion != "fault" and tried and _are_rounding(tried.values()):
        calls = ", ".join(f"{one.name}.{one.direction}" for one in tried.values())
        sentence = (
            "No fault: what is suspect is right in both runs, given the same but for rounding"
            f" ({calls})."
        )
        return Found("clean", sentence, first.step, database=database, remarks=remarks)
    first_one = next(iter(verdict.suspects), None)
    experiments = " ".join(one.sentence for one in tried.values())
    return Found(
        verdict.conclusion,
        f"{verdict.sentence} {experiments}".strip(),
        first.step,
        first_one.node if first_one is not None else "",
        first_one.cause if first_one is not None else "",
        next(iter(tried.values()), None),
        database,
        remarks,
    )


def _is_fault(verdict: Verdict, is_whole: bool) -> bool:
    """Whether a verdict accuses; of a module only where all calls inside it were recorded."""
    names_call = any(_call_of(one)[0] for one in verdict.suspects[:1])
    return verdict.conclusion == "fault" and (is_whole or names_call)


def _are_rounding(tried: Collection[Proven]) -> bool:
    return all(one.proof is Proof.ROUNDING for one in tried)


def _partners(database: Path) -> dict[str, str]:
    """What the calls of this run are compared with, by name."""
    with opened(database) as connection:
        return dict(matched_names(connection, Kind.API))


def _call_of(suspect: Suspect) -> tuple[str, str]:
    """The name of an API call and its direction; empty for a module."""
    node = suspect.node
    for direction in ("forward", "backward"):
        stem = node.removesuffix(f".{direction}")
        if stem != node and not node.startswith("Module."):
            return stem, direction
    return "", ""


def _place(dump: Path, suspect: Suspect) -> Path:
    """The folder of the rank of a suspect."""
    step = dump / f"step{suspect.step}"
    for name in (f"rank{suspect.rank}", "rank"):
        if (step / name).is_dir():
            return step / name
    return step / "rank"


def _built(runner: Runner, name: str, sides: Mapping[str, Path]) -> Path:
    """The database of a stage, built once."""
    path = runner.journal.folder / f"{name}.vis.db"
    if not path.exists():
        request = BuildConfig(sides["npu"], sides["bench"], print_compare_log=False)
        build(request, runner.journal.folder, name=path.name, workers=1)
    return path


def _verdict(database: Path) -> Verdict:
    with opened(database) as connection:
        found = read_verdict(connection)
    if found is None:
        raise BuildError(f"{database} compares nothing: the runs have no step or rank in common.")
    return found
