"""The numbers and words that a database holds, the wire carries and the viewer shows: once.

The schema takes its metrics from here; ``schema.sql``, ``graph.proto`` and the TypeScript sources
are compared with this module by ``tests/builder/database/test_codes.py``. It imports nothing, so
that everything may import it.
"""

from __future__ import annotations

from enum import IntEnum

APPLICATION_ID = 0x4D535042  # "MSPB"

SIDES = ("npu", "bench")  # by ``graph.side``
STATISTICS = ("max", "min", "mean", "norm")  # bit i of ``tensor.nan_flags`` is the i-th of them

# Columns of the tables of comparisons, in this order; bit i of ``nan_flags`` is the i-th of them.
STATISTIC_METRICS = (
    *(f"{statistic}_diff" for statistic in STATISTICS),
    *(f"{statistic}_relative_err" for statistic in STATISTICS),
)
TENSOR_METRICS = (
    "cosine",
    "euclidean_distance",
    "max_abs_err",
    "max_elementwise_relative_err",
    "one_thousandth_ratio",
    "five_thousandths_ratio",
)
# What sketches estimate and tensors tell exactly.
SKETCH_METRICS = ("cosine", "relative_difference", "factor_share", "offset_share")
METRICS = STATISTIC_METRICS + TENSOR_METRICS + SKETCH_METRICS[1:]
SLICES = 16  # of the rows of a tensor, and of its columns, in ``slices`` of comparisons


class Disagreement(IntEnum):
    """Who differs in what should be one value; stored in ``disagreement.kind``."""

    REPLICA = 0  # ranks of one stage that hold a tensor alike
    STAGE = 1  # pipeline stages that run a call alike
    SHARE = 2  # a rank's part, and what the reference has there


class Kind(IntEnum):
    """What a node stands for; stored in ``node.kind``."""

    MODULE = 0
    API = 1
    COLLECTION = 2


class Direction(IntEnum):
    """Forward or backward call; stored in ``node.direction``."""

    NONE = 0
    FORWARD = 1
    BACKWARD = 2


class Section(IntEnum):
    """Where a parameter belongs; stored in ``tensor.section`` and ``argument.section``."""

    INPUT = 0
    OUTPUT = 1
    PARAMETERS = 2
    PARAMETERS_GRAD = 3


class Grade(IntEnum):
    """How bad a node is; stored in ``node.grade``."""

    UNGRADED = 0
    OK = 1
    SLIGHT = 2
    MODERATE = 3
    SERIOUS = 4
    SEVERE = 5
    UNMATCHED = 6


class Overflow(IntEnum):
    """How a call treats NaN and infinity; stored in ``node.overflow``, NULL for none."""

    NONE = 0
    MEDIUM = 1
    HIGH = 2
    CRITICAL = 3


class CallRole(IntEnum):
    """What part a call plays in what went wrong; stored in ``role.role``."""

    UNKNOWN = 0
    CLEAN = 1
    SUSPECT = 2
    CARRIER = 3
    AMPLIFIER = 4


class Strength(IntEnum):
    """How sure an accusation is; stored in ``suspect.strength``."""

    NONE = 0
    WEAK = 1
    STRONG = 2


class Source(IntEnum):
    """Which rule or person matched two nodes; stored in ``match.source``."""

    EXACT = 0
    FUZZY = 1
    MAPPING = 2
    MANUAL = 3
    FILE = 4
    AUTOMATIC = 5


class Evidence(IntEnum):
    """What made an automatic match; stored in ``match.evidence``."""

    LEAVES = 1  # the modules hold the same calls
    INSIDE = 2  # the best alignment of what the partners of the hosts hold
    WRAPPER = 3  # the modules stand around a pair and pass through
    BACKWARD = 4  # the calls forward are a pair
    RECOMPUTED = 5  # the calls they repeat are a pair
    GRADIENT = 6  # the modules are a pair
    COLLECTION = 7  # most of what they hold is paired
    ELSEWHERE = 8  # another step or rank pairs what has these names


class Reason(IntEnum):
    """Why a node has no partner; stored in table ``unmatched_reason``.

    The first of these that holds is given, in the order in which they are tested.
    """

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
    UNDECIDED = 12  # the evidence speaks for several nodes, or not enough for any
    GROUPED = 13  # calls of the other side do the same together, see table call_group
    # Files that were changed by hand number their own reasons on from the last.
    REJECTED = 64  # a person rejected the match that evidence made


class Role(IntEnum):
    """What a call does towards its partner; stored in ``communication.role``."""

    SEND = 0
    RECEIVE = 1
    SEND_RECEIVE = 2


def words(codes: type[IntEnum]) -> tuple[str, ...]:
    """The words of an enumeration in the order of its numbers, as views and tables print them."""
    return tuple(code.name.lower() for code in codes)
