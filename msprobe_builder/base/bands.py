"""What errors a grade covers, and its colour."""

from __future__ import annotations

from dataclasses import dataclass

from msprobe_builder.base.codes import Grade


@dataclass(frozen=True)
class Band:
    """Errors in [low, high) get this grade and colour; the last band includes 1."""

    grade: Grade
    low: float | None
    high: float | None
    colour: str

    @property
    def name(self) -> str:
        """The grade's word in tables and views."""
        return self.grade.name.lower()
