"""Why a node has no partner; stored in table ``unmatched_reason``."""

from __future__ import annotations

from enum import IntEnum


class Reason(IntEnum):
    """The first of these that holds is given, in the order in which they are tested."""

    NO_SUCH_NAME = 1
    OTHER_PARENT = 2
    OTHER_PARAMETER_COUNT = 3
    OTHER_TYPE = 4
    OTHER_SHAPE = 5
    PARTNER_TAKEN = 6
    PARENT_UNMATCHED = 7  # calls are only paired inside matched modules
    EXTRA_CALL = 8  # the partner of the parent makes this call less often
    OTHER_ORDER = 9  # the partner of the parent makes this call at another place
    OTHER_CLASS = 10  # a module of another class sits at this place
    CALLS_UNMATCHED = 11  # a collection of which no call is matched with one of a collection
