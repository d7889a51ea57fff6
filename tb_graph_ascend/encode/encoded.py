"""A large message as it crosses the wire, written without protobuf's own objects."""

from __future__ import annotations

from dataclasses import dataclass

from google.protobuf.message import Message


@dataclass(frozen=True)
class Encoded:
    """What a message of ``kind`` is as bytes."""

    kind: type[Message]
    content: bytes

    def message(self) -> Message:
        """The same as an object."""
        return self.kind.FromString(self.content)
