"""What was read of the dump before: the next one mostly has the same calls from the same places.

Both sides of a comparison, and ranks that share out a model, record the same calls. What is equal
is not made again, and is the same object, by which whoever reads it knows that it is equal.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Generic, TypeVar

from msprobe_builder.dump.construct import Construct
from msprobe_builder.dump.stack import Stacks

Read = TypeVar("Read")


@dataclass
class OfBytes(Generic[Read]):
    """What was made of the content of a file, and the keys that stand in it twice."""

    _digest: bytes = b""
    _made: Read | None = None
    _twice: tuple[str, ...] = ()

    def find(self, content: bytes, twice: list[str]) -> tuple[bytes, Read | None]:
        """A digest to keep by, and what was made of the same content, whose keys are told."""
        digest = blake2b(content, digest_size=16).digest()
        if digest != self._digest:
            self._made = None  # as large as what comes in its place
        elif self._made is not None:
            twice += self._twice
        return digest, self._made

    def keep(self, digest: bytes, made: Read | None, twice: list[str]) -> None:
        """Know it again."""
        self._digest, self._made, self._twice = digest, made, tuple(twice)


@dataclass
class Latest:
    """Parts of the latest dump; ``names`` are those of all calls, each text once."""

    names: dict[str, str] = field(default_factory=dict)
    records: dict[str, int] = field(default_factory=dict)
    construct: OfBytes[Construct] = field(default_factory=OfBytes)
    stacks: OfBytes[Stacks] = field(default_factory=OfBytes)
