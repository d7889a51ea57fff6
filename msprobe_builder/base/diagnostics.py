"""What a build noticed without stopping for it; stored in table ``diagnostic``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

LAYOUT_CONFLICT = "layout_conflict"  # what was recorded contradicts the layout of parallel_merge


@dataclass(frozen=True)
class Diagnostic:
    """One kind of finding; ``subject`` is an example when ``count`` is above one."""

    severity: str  # info, warning, error
    code: str
    message: str
    subject: str | None = None
    count: int = 1
    side: int | None = None
    step: int | None = None
    rank: int | None = None

    def at(
        self, *, side: int | None = None, step: int | None = None, rank: int | None = None
    ) -> Diagnostic:
        """The same finding with its place filled in."""
        return replace(self, side=side, step=step, rank=rank)


def about(severity: str, code: str, subjects: Sequence[str], message: str) -> list[Diagnostic]:
    """One diagnostic for all ``subjects``, none when there are none."""
    if not subjects:
        return []
    return [Diagnostic(severity, code, message, subjects[0], len(subjects))]
