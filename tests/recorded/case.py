"""A recorded case: a YAML file that says which dumps are compared, and what is right of them.

The keys are those of :class:`RecordedCase` and, below ``facts``, of :data:`FACTS`; docs/testing.md
describes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
FACTS = (
    *("conclusion", "first", "innocent", "unnamed", "first_bad_step"),
    *("pairs", "alone", "roles", "notes", "next", "said"),
)
_FIRST = {
    "node",
    "cause",
    "strength",
    "side",
    "rank",
    "step",
    "ranks",
    "direction",
    "source",
    "said",
}

# The one in C is ten times as quick, where there is one.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Call = list[Any] | dict[str, Any]
Side = str | dict[str, Call]


@dataclass(frozen=True)
class RecordedCase:
    """One comparison and the facts that hold of it.

    ``npu``, ``bench`` and ``noise`` are folders in the archive ``dumps`` beside the file, or
    calls by name that are written down in place. ``compare`` holds further keys of compare.json,
    ``options`` those of msprobe-build. What is ``missed`` says why the facts, which are right, are
    not told yet. All calls that are off by more than ``told_from`` are told.
    """

    name: str
    why: str
    facts: Mapping[str, Any]
    dumps: str | None = None
    npu: Side = "npu"
    bench: Side | None = "bench"  # None: one run is looked at alone
    noise: Side | None = None
    tensors: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    compare: Mapping[str, Any] = field(default_factory=dict)
    options: tuple[str, ...] = ()
    missed: str = ""
    told_from: float | None = None

    @property
    def archive(self) -> Path | None:
        return None if self.dumps is None else FOLDER / Path(self.name).parent / self.dumps


def cases() -> Iterator[RecordedCase]:
    """All that are recorded, by name: ``verdict/bags``."""
    for path in sorted(FOLDER.glob("*/*.yaml")):
        yield read_case(path)


def read_case(path: Path) -> RecordedCase:
    """Read one; raises ValueError naming the file and what is wrong with it."""
    content = yaml.load(path.read_text(encoding="utf-8"), LOADER)  # noqa: S506 - both are safe
    known = {one.name for one in fields(RecordedCase)} - {"name"}
    if not isinstance(content, dict) or not {"why", "facts"} <= content.keys() <= known:
        raise ValueError(f"{path} needs why and facts, and may have {', '.join(sorted(known))}")
    facts = content["facts"]
    if not facts or not facts.keys() <= set(FACTS):
        raise ValueError(f"{path}: facts are {', '.join(FACTS)}")
    if not (facts.get("first") or {}).keys() <= _FIRST:
        raise ValueError(f"{path}: of the first suspect there are {', '.join(sorted(_FIRST))}")
    content["options"] = tuple(map(str, content.get("options", ())))
    case = RecordedCase(name=f"{path.parent.name}/{path.stem}", **content)
    if case.dumps is None and isinstance(case.npu, str):
        raise ValueError(f"{path} names neither an archive of dumps nor calls of npu")
    return case
