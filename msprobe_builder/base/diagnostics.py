"""What a build noticed without stopping for it; stored in table ``diagnostic``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msprobe_builder.facts.fact import Fact
from msprobe_builder.facts.wording import tell

LAYOUT_CONFLICT = "layout_conflict"  # what was recorded contradicts the layout of parallel_merge


@dataclass(frozen=True)
class Diagnostic:
    """One kind of finding; ``subject`` is an example when ``count`` is above one."""

    severity: str  # info, warning, error
    code: str
    said: Fact
    subject: str | None = None
    count: int = 1
    side: int | None = None
    step: int | None = None
    rank: int | None = None

    @property
    def message(self) -> str:
        """What is said."""
        return tell(self.said)

    def at(
        self, *, side: int | None = None, step: int | None = None, rank: int | None = None
    ) -> Diagnostic:
        """The same finding with its place filled in."""
        return replace(self, side=side, step=step, rank=rank)


def about(severity: str, code: str, subjects: Sequence[str], said: Fact) -> list[Diagnostic]:
    """One diagnostic for all ``subjects``, none when there are none."""
    if not subjects:
        return []
    return [Diagnostic(severity, code, said, subjects[0], len(subjects))]
