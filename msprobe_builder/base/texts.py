"""Interning: every text that repeats gets one small integer."""

from __future__ import annotations


class Texts:
    """Texts in order of first use; equal texts share an id.

    One instance is shared by both sides of a comparison, so that equal names, types and
    shapes can be compared as integers.
    """

    __slots__ = ("_ids", "values")

    def __init__(self) -> None:
        self.values: list[str] = []
        self._ids: dict[str, int] = {}

    def __copy__(self) -> Texts:
        """The same texts under the same ids; what is added to one is not in the other."""
        result = Texts()
        result.values, result._ids = self.values.copy(), self._ids.copy()
        return result

    def id(self, value: str) -> int:
        """Id of ``value``, assigned on first use."""
        found = self._ids.get(value)
        if found is None:
            found = self._ids[value] = len(self.values)
            self.values.append(value)
        return found

    def find(self, value: str) -> int:
        """Id of ``value``; -2, which is no id of any row, when it was never used."""
        return self._ids.get(value, -2)

    def __len__(self) -> int:
        return len(self.values)


def is_text(value: str) -> bool:
    """Whether a text can be stored and sent: JSON may hold half a surrogate pair."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def storable(text: str) -> str:
    """Text that can be stored: half a surrogate pair becomes an escape."""
    return text if is_text(text) else text.encode("utf-8", "backslashreplace").decode("utf-8")
