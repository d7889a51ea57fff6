"""What a tensor of one rank is of the whole tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum

from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.merge.flow.dimensions import Cut


class Share(IntEnum):
    """How the tensors of the ranks make up one tensor."""

    REPLICA = 0  # all ranks hold the same
    SHARD = 1  # each holds a part along one dimension
    PARTIAL = 2  # the whole is the reduction of all
    LOCAL = 3  # whole in shape, but each rank has numbers of its own
    UNKNOWN = 4  # differs between the ranks in another way


@dataclass(frozen=True)
class State:
    """The share of one tensor; the ``cut`` of a shard is None when it is not known.

    ``reduced`` is the row that holds a partial tensor made whole, -1 when there is none.
    ``reason`` says how it is known; it makes no state another one.
    """

    share: Share
    cut: Cut | None = None
    reduced: int = -1
    reason: Fact | None = field(default=None, compare=False)

    def because(self, reason: Fact | None) -> State:
        """The same state with a reason, unless it has one."""
        return self if self.reason is not None else replace(self, reason=reason)


REPLICA = State(Share.REPLICA)
LOCAL = State(Share.LOCAL)
UNKNOWN = State(Share.UNKNOWN)


def because(reasons: Sequence[Fact]) -> Fact:
    """What a recipe says of how the share of a value is known."""
    return fact("recipe.because", why=fact("recipe.reasons", reasons=reasons))
