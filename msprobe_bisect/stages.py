"""From the step at which two runs part to the call that is wrong, one record after the other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from msprobe_bisect.again import all_again, showing_calls
from msprobe_bisect.proof import Proof, Proven, prove
from msprobe_bisect.runs import SIDES, Budget, Runner, Stage
from msprobe_bisect.traces import Part, Parting, gradients_agree, parting
from msprobe_builder import BuildConfig, build
from msprobe_builder.base.codes import Kind
from msprobe_builder.base.errors import BuildError
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.matches import matched_names
from msprobe_builder.database.read.verdict import Suspect, Verdict, read_verdict
from msprobe_builder.export.verdict import size_fact
from msprobe_builder.facts.fact import Fact, Facts, fact, has_code
from msprobe_builder.facts.wording import tell
from msprobe_builder.facts.words import HIDDEN
from msprobe_builder.verdict.ruling.next_dump import EACH_AGAIN

_MOST_ROUNDS = 3  # of tensors
_CONSTRUCTS = "step*/rank*/construct.json"
_MOST_PROOFS = 5
_LARGEST_WHOLE = 16e9  # bytes of all tensors of a step that are written without being asked for
_MOST_SHOWN = 3  # names of calls that could not be run again
_WRONG = (Proof.OPERATOR, Proof.REFERENCE, Proof.BOTH)
_CALLS: dict[str, Any] = {
    "task": "statistics",
    "level": "mix",
    "statistics": {"summary_mode": "sketch"},
}


@dataclass(frozen=True)
class Found:
    """What a search has found; ``culprit`` is a call, or a part of the step."""

    conclusion: str  # fault, clean, undecided
    told: Facts
    step: int | None = None
    culprit: str = ""
    cause: str = ""
    proven: Proven | None = None
    database: Path | None = None
    remarks: Facts = ()
    rank: int = 0  # of the culprit, where calls were looked at

    @property
    def sentence(self) -> str:
        """What is told of it."""
        return tell(self.told)


class Round(NamedTuple):
    """What one record of calls has told; ``is_whole``: of all tensors of the step."""

    verdict: Verdict
    database: Path
    sides: dict[str, Path]
    is_whole: bool = False


def search(runner: Runner, steps: int, say: Callable[[str], None]) -> Found:
    """Go from traces to a proof. BuildError where a run or a build fails, SpentError."""
    traced = Stage("trace", fact("bisect.trace"), {"step": list(range(steps))}, trace=True)
    sides = runner.record(traced)
    first = parting(sides["npu"], sides["bench"])
    ranks = first.unshared_ranks
    of_one_run = fact("bisect.ranks_of_one_run", ranks=ranks) if ranks else None
    remarks = tuple(one for one in (first.remark, of_one_run) if one is not None)
    if first.part is Part.NOTHING:
        same = fact("bisect.same", steps=first.compared)
        more = fact("bisect.of_one_run", steps=first.left_out) if first.left_out else None
        return Found("clean", (same,) if more is None else (same, more), remarks=remarks)
    rank = _rank(first)
    what = first.what or ""
    said = fact("bisect.parts", step=first.step, rank=rank, part=first.part.value, what=what)
    say(tell(said))
    if first.part not in (Part.VALUES,) and first.is_sure:
        return Found(
            "fault",
            (fact("bisect.at_step", step=first.step, rank=rank, what=_told(first.part, what)),),
            first.step,
            first.part.value,
            first.part.value,
            remarks=remarks,
        )
    return _in_calls(runner, first, remarks, say)


def _told(part: Part, what: Fact | str) -> Fact:
    return {
        Part.DATA: fact("bisect.other_data", what=what),
        Part.WEIGHTS: fact("bisect.other_weights", what=what),
        Part.SETTINGS: fact("bisect.other_settings", what=what),
        Part.UPDATE: fact("bisect.other_updates", what=what),
    }[part]


def _rank(first: Parting) -> Fact | None:
    return fact("bisect.of_rank", rank=first.rank) if first.rank else None


def _in_calls(runner: Runner, first: Parting, remarks: Facts, say: Callable[[str], None]) -> Found:
    config: Mapping[str, Any] = {**_CALLS, "step": [first.step]}
    stage = Stage("calls", fact("bisect.all_calls"), config)
    sides = runner.record(stage)
    database = _built(runner, stage.name, sides)
    verdict = verdict_of(database)
    say(verdict.sentence)
    is_open = verdict.conclusion != "fault" and first.is_sure and first.is_of_gradients
    if is_open and gradients_agree(sides, first.step):  # backward leaves the same
        behind = fact("bisect.behind_backward", what=first.what or "")
        told = fact("bisect.at_step", step=first.step, rank=_rank(first), what=behind)
        return Found(
            *("fault", (told,), first.step, "gradients", "gradients"),
            database=database,
            remarks=remarks,
        )
    if verdict.conclusion == "clean":
        return Found("clean", verdict.said, first.step, database=database, remarks=remarks)
    rounds = [Round(verdict, database, sides)]
    for number in range(1, _MOST_ROUNDS + 1):
        proposal = verdict.next_dump
        if proposal is None:
            break
        size = proposal["expected_bytes"] or 0
        is_whole = has_code(verdict.remark, EACH_AGAIN.code)
        if is_whole and size > _LARGEST_WHOLE and runner.budget.size is None:
            remarks += (fact("bisect.too_large", size=size_fact(proposal)),)
            break
        what = fact("bisect.tensors_of_calls")
        stage = Stage(f"tensors{number}", what, proposal["config"], size=size)
        sides = runner.record(stage)
        database = _built(runner, stage.name, sides)
        verdict = verdict_of(database)
        say(verdict.sentence)
        rounds.append(Round(verdict, database, sides, is_whole))
    found = concluded(first, rounds, remarks, say, runner.budget)
    return _of_compiler(runner, found, rounds[0].sides, say)


def _of_compiler(
    runner: Runner, found: Found, sides: Mapping[str, Path], say: Callable[[str], None]
) -> Found:
    """Hold a module that shows no calls against eager: it may be compiled.

    Where runs are made elsewhere nothing is run here.
    """
    if runner.plans or found.conclusion != "fault" or found.step is None:
        return found
    if not found.culprit.startswith("Module.") or _shows_calls(sides["npu"], found.culprit):
        return found
    wrong, right = (runner.departing(side, found.step) for side in SIDES)
    if not wrong or right:
        return found
    proven = Proven(Proof.COMPILER, found.culprit, "", why=wrong[0])
    say(tell(proven.told))
    return replace(found, told=(proven.told, *found.told), proven=proven)


def _shows_calls(dump: Path, module: str) -> bool:
    """Whether a call below this call of a module, or its backward, was recorded."""
    forward = module.replace(".backward.", ".forward.")
    return any(forward in showing_calls(path.parent) for path in dump.glob(_CONSTRUCTS))


def concluded(
    first: Parting,
    rounds: list[Round],
    remarks: Facts,
    say: Callable[[str], None],
    budget: Budget,
) -> Found:
    """What the records of calls tell: suspects of the last one are proven, then those before.

    Where half precision may hide a fault, and the last record is of all tensors, each call is run
    again.
    BuildError where a dump or a database is damaged, SpentError.
    """
    tried: dict[tuple[str, str], Proven] = {}
    sides = rounds[-1].sides
    for verdict, database, *_ in reversed(rounds):
        partners = _partners(database)
        for suspect in verdict.suspects:
            name, direction = _call_of(suspect)
            if not name or (name, direction) in tried or len(tried) >= _MOST_PROOFS:
                continue
            places = [rank_folder(sides[side], suspect.step, suspect.rank) for side in SIDES]
            other = partners.get(suspect.node, "").removesuffix(f".{direction}") or None
            if suspect.side == "bench":
                other = name  # it is the reference's: there may be no other
            proven = tried[name, direction] = prove((name, other), direction, *places)
            say(tell(proven.told))
            if proven.proof in (*_WRONG, Proof.ARGUMENT):
                told = (proven.told, *suspect.facts)
                return Found(
                    *("fault", told, suspect.step, name, suspect.cause, proven, database, remarks),
                    rank=suspect.rank,
                )
    verdict, database, *_ = next(
        (one for one in reversed(rounds) if _is_fault(one.verdict, one is rounds[0])),
        rounds[0] if rounds[-1].verdict.conclusion == "fault" else rounds[-1],
    )
    # Guesses that are right say nothing of the other calls.
    is_hidden, are_right = has_code(verdict.said, HIDDEN), _are_rounding(tried.values())
    if is_hidden and are_right and rounds[-1].is_whole:
        return _each_again(first, rounds[-1], remarks, say, budget)
    if verdict.conclusion != "fault" and tried and are_right and not is_hidden:
        calls = [f"{one.name}.{one.direction}" for one in tried.values()]
        right = fact("bisect.all_right", calls=calls)
        return Found("clean", (right,), first.step, database=database, remarks=remarks)
    first_one = None if is_hidden else next(iter(verdict.suspects), None)
    return Found(
        verdict.conclusion,
        (*verdict.said, *(one.told for one in tried.values())),
        first.step,
        first_one.node if first_one is not None else "",
        first_one.cause if first_one is not None else "",
        next(iter(tried.values()), None),
        database,
        remarks,
        rank=0 if first_one is None else first_one.rank,
    )


def _each_again(
    first: Parting,
    last: Round,
    remarks: Facts,
    say: Callable[[str], None],
    budget: Budget,
) -> Found:
    """Nobody is suspect, and rounding may hide a fault: run each call again by itself."""
    verdict, database, sides, _ = last
    say(tell(fact("bisect.each_again")))
    partners = _partners(database)
    back = {other: one for one, other in partners.items()}
    again = all_again(sides, first.step, database.parent, budget)
    told: Facts = ()
    for name, direction, rank, side in again.wrong[:_MOST_PROOFS]:
        node = f"{name}.{direction}"
        pair = (node, partners.get(node)) if side == "npu" else (back.get(node, node), node)
        stems = [None if one is None else one.removesuffix(f".{direction}") for one in pair]
        places = [rank_folder(sides[one], first.step, rank) for one in SIDES]
        proven = prove((stems[0] or name, stems[1]), direction, *places)
        say(tell(proven.told))
        if proven.proof in _WRONG:
            return Found(
                *("fault", (proven.told,), first.step, proven.name, "output", proven, database),
                remarks,
                rank=rank,
            )
        told += (proven.told,)
    left_out = len(again.left_out)
    if left_out:
        shown = list(again.left_out[:_MOST_SHOWN])
        told += (fact("bisect.not_run_again", names=shown, more=_more(left_out - len(shown))),)
    limits = verdict.said[1:]
    if again.wrong or not again.is_enough:
        return Found(
            "undecided", (*verdict.said, *told), first.step, "", "", None, database, remarks
        )
    right = fact("bisect.each_right", calls=again.right, step=first.step)
    return Found("clean", (right, *told, *limits), first.step, database=database, remarks=remarks)


def _more(count: int) -> Fact | None:
    return fact("bisect.more_calls", count=count) if count else None


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


def rank_folder(dump: Path, step: int | None, rank: int) -> Path:
    """Where a dump holds a step of a rank."""
    folder = dump / f"step{step}"
    return next(
        (folder / name for name in (f"rank{rank}", "rank") if (folder / name).is_dir()),
        folder / "rank",
    )


def _built(runner: Runner, name: str, sides: Mapping[str, Path]) -> Path:
    """The database of a stage, built once."""
    path = runner.journal.folder / f"{name}.vis.db"
    if not path.exists():
        request = BuildConfig(sides["npu"], sides["bench"], print_compare_log=False)
        build(request, runner.journal.folder, name=path.name, workers=1)
    return path


def verdict_of(database: Path) -> Verdict:
    """BuildError where nothing was compared, or the file is damaged."""
    with opened(database) as connection:
        found = read_verdict(connection)
    if found is None:
        raise BuildError(f"{database} compares nothing: the runs have no step or rank in common.")
    return found
