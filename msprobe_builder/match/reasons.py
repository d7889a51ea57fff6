"""Why a node has no partner; stored in table ``unmatched_reason``."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """Reasons in the order in which they are tested."""

    NO_SUCH_NAME = 1
    OTHER_PARENT = 2
    OTHER_PARAMETER_COUNT = 3
    OTHER_TYPE = 4
    OTHER_SHAPE = 5
    PARTNER_TAKEN = 6
