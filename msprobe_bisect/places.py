"""``reproduce.py`` of a cause that no single call shows: the places where the runs differ.

The training is started again, and what it has at these places is held against the reference's.
Places are chosen by the records of both runs: one of them at least is otherwise in this run.
"""

from __future__ import annotations

import base64
import pprint
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from msprobe_bisect import standalone
from msprobe_bisect.journal import Journal
from msprobe_bisect.runs import SIDES
from msprobe_bisect.stages import Found, rank_folder
from msprobe_bisect.traces import (
    Part,
    Parting,
    Traced,
    is_remainder,
    parting,
    share_allowed,
    traced,
)
from msprobe_builder.base.limits import LARGEST_JSON
from msprobe_builder.base.publish import written
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import ENGLISH, tell
from msprobe_builder.files.regular import read_bytes, read_text
from msprobe_builder.files.text_files import parse_appended
from msprobe_builder.sketch.definition import FLAT
from msprobe_builder.sketch.layout import NO_ROW
from msprobe_builder.sketch.rounding import ROUNDING
from msprobe_collector.watch.reference import Keys, Reference
from msprobe_operators.dump.operands import CannotRebuildError

_MOST = 8  # places that differ, of those that a script looks at
_BESIDE = 3  # places of the same kind that do not
_LEAST = 4e-6  # share of float32 that kernels of another machine may be off by in a module
_MODULE = re.compile(r"Module\.(?P<path>.+)\.\w+\.forward\.(?P<call>\d+)")
Line = Mapping[str, Any]
Places = dict[str, Any]


def write_places(found: Found, journal: Journal, path: Path) -> None:
    """Write a script that trains and looks. CannotRebuildError where no place tells them apart."""
    first = parting(*(journal.dump("trace", side) for side in SIDES))
    ours, theirs = (traced(journal.dump("trace", side), first) for side in SIDES)
    places = {**_of_module(found, journal), **_of_parting(first, ours, theirs)}
    if not places:
        raise CannotRebuildError(fact("bisect.no_place"))
    values = {
        "COMMAND": journal.commands["npu"],
        "RANK": first.rank,
        "STEP": first.step,
        "FIRST": theirs.calls_before,
        "CALLS": max(len(one.own["data"]) for one in (ours, theirs)),
        "REFERENCE": places,
    }
    with written(path) as stream:
        stream.write(_script(found, journal, values).encode())


def _script(found: Found, journal: Journal, values: Mapping[str, Any]) -> str:
    """The source of ``standalone.py`` with what it has to look at."""
    said = " ".join(tell(found.told, ENGLISH).split()).replace("\\", "/").replace('"', "'")
    text = read_text(Path(standalone.__file__)).replace("@WHAT@", said, 1)
    reference = f"# The reference: {journal.commands['bench']!r}"
    for name, value in values.items():
        line = re.compile(rf"^{name}(: dict\[str, Any\])? = .*$", re.M)
        shown = f"{name} = {pprint.pformat(value, width=100, sort_dicts=False)}"
        shown = f"{reference}\n{shown}" if name == "COMMAND" else shown
        text = line.sub(lambda _, shown=shown: shown, text, count=1)  # type: ignore[misc]
    return text


# -- of the trace ----------------------------------------------------------------------------------


def _of_parting(first: Parting, ours: Traced, theirs: Traced) -> Places:
    """Places of the part in which a step differs first; none where it may be rounding."""
    own, other = (dict(_places(first.part, one)) for one in (ours, theirs))
    differing = {place for place in {**other, **own} if _differs(own, other, place)}
    if first.part is Part.VALUES:
        differing -= set(_remainders(own, other, theirs))
    alike = [place for place in other if not _differs(own, other, place)]
    wrong = [place for place in other if place in differing][:_MOST]
    kinds = {place.partition(" ")[0] for place in wrong}
    beside = [place for place in alike if place.partition(" ")[0] in kinds][:_BESIDE]
    return {place: other[place] for place in (*wrong, *beside)} if wrong else {}


def _differs(own: Places, other: Places, place: str) -> bool:
    if place not in other:
        return True
    return standalone.compared({place: other[place]}, own)[0][0]


def _remainders(own: Places, other: Places, theirs: Traced) -> Iterator[str]:
    for place in other:
        kind, _, name = place.partition(" of ")
        if kind == "gradient" and place in own:
            share = standalone.apart(own[place], other[place])
            if is_remainder(name, share, theirs.own["gradients"]):
                yield place


def _places(part: Part, step: Traced) -> Iterator[tuple[str, Any]]:
    """What a line of a trace holds of a part, by place as ``standalone.py`` names it."""
    line = step.own
    if part is Part.DATA:
        yield "the number of calls", len(line["data"])
        for call, given in enumerate(line["data"]):
            for number, told in given.items():
                yield f"tensor {number} given to call {call}", _exact(told)
    elif part is Part.WEIGHTS:
        for name, told in line["before"].items():
            yield f"weight of {standalone.plain_name(name)}", _exact(told)
    elif part is Part.VALUES:
        for call, made in enumerate(line["outputs"]):
            for number, told in made.items():
                yield f"output {number} of the model, call {call}", _within(told)
        for name, told in line["gradients"].items():
            yield f"gradient of {standalone.plain_name(name)}", _within(told)
    elif part is Part.SETTINGS:
        for group, settings in enumerate(line["settings"]):
            for key, value in settings.items():
                yield f"{key} of group {group}", value
    elif part is Part.UPDATE:
        for name, told in line["weights"].items():
            update = step.update_of(name)
            if update is not None:
                shape, limit = told["shape"], update.allowed
                place = f"update of {standalone.plain_name(name)}"
                yield place, {"shape": shape, "sketch": _packed(update.numbers), "limit": limit}


def _exact(told: Line) -> Places:
    return {"shape": told["shape"], "crc": told["crc"], "limit": 0.0}


def _within(told: Line) -> Places:
    known = {key: told[key] for key in ("shape", "crc", "sketch") if key in told}
    if "sketch" in known:
        known["sketch"] = _packed(np.frombuffer(base64.b64decode(known["sketch"]), "<f4"))
    return {**known, "limit": share_allowed(told)}


def _packed(numbers: Any) -> str:
    return base64.b64encode(np.asarray(numbers[:FLAT], "<f4").tobytes()).decode()


# -- of the record of calls ------------------------------------------------------------------------


def _of_module(found: Found, journal: Journal) -> Places:
    """What the innermost module around the culprit is given and makes, if it makes other."""
    if found.database is None or not journal.has("calls", "npu"):
        return {}
    folders = [rank_folder(journal.dump("calls", side), found.step, found.rank) for side in SIDES]
    if not all((folder / "construct.json").is_file() for folder in folders):
        return {}
    parents: dict[str, str | None] = {}
    for folder in folders[::-1]:
        parents |= parse_appended(read_bytes(folder / "construct.json", LARGEST_JSON))[0]
    references = [Reference(folder) for folder in folders]
    name: str | None = found.culprit.replace(".backward.", ".forward.")
    name = name if _MODULE.fullmatch(str(name)) else f"{name}.forward"
    seen = set()
    while name is not None and name not in seen:
        seen.add(name)
        own, other = (dict(_of_call(one, str(name))) for one in references)
        if own.keys() == other.keys():
            narrow = {place: _narrowed(own[place], told) for place, told in other.items()}
            if any(_differs(own, narrow, one) for one in narrow if one.startswith("output")):
                return narrow
        name = parents.get(name)
    return {}


def _narrowed(own: Places, other: Places) -> Places:
    """Allow a fourth of what this run is off by: the verdict says that it is more than rounding.

    What is so near to rounding that another machine may be as far off keeps its limit, as does half
    precision.
    """
    share = standalone.apart(own, other)
    is_told = 4 * _LEAST < share < 4 * other["limit"] <= 4 * ROUNDING["float32"]
    return {**other, "limit": share / 4 if is_told else other["limit"]}


def _of_call(reference: Reference, name: str) -> Iterator[tuple[str, Any]]:
    """What a recorded call of a module is given and makes; nothing of other calls."""
    known = _MODULE.fullmatch(name)
    shown = reference.shown(Keys().of(name)) if known else None
    for one in shown or ():
        kind = one.where.partition(" ")[0]
        if known is None or one.row == NO_ROW or kind not in ("input", "output"):
            continue
        numbers = reference.rows(np.array([one.row]))["numbers"][0]
        path, shape = standalone.plain_name(known["path"]), list(one.item["shape"])
        told = {"shape": shape, "sketch": _packed(numbers)}
        place = f"{one.where} of {path}, call {known['call']}"
        yield place, {**told, "limit": share_allowed(one.item)}
