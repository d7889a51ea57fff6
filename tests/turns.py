"""Which of the costly tests ``make test`` tries: of each file a fifth, chosen by the commit.

``--costly`` is ``all``, a number from 0 to 4, ``commit``, or ``three``: three of the fifths that
``commit`` leaves out, as continuous integration tries. The five parts are all tests.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tests.shares import ALL, COMMIT, head

PARTS = 5
THREE = "three"
CHOICES = (ALL, COMMIT, THREE, *map(str, range(PARTS)))
# Whose tests build, train, serve, or open pages: most of the time, not most of the tests.
COSTLY = (
    *("tests/alignment/", "tests/bisect/", "tests/browser/", "tests/checks/", "tests/collector/"),
    *("tests/faults/", "tests/fuzz/", "tests/operators/", "tests/plugin/", "tests/properties/"),
    *("tests/recorded/", "tests/reliability/", "tests/test_shares.py"),
    *("tests/docs/test_compare_document.py", "tests/docs/test_tutorial.py"),
    *(f"tests/builder/{name}/" for name in ("communication", "database", "merge", "metrics")),
    *(f"tests/builder/{name}/" for name in ("overflow", "pipeline", "rematch", "tables")),
    "tests/builder/verdict/",
)


def chosen_part(costly: str) -> int | None:
    """The part that is tried; None for all."""
    if costly == ALL:
        return None
    return int(head(), 16) % PARTS if costly in (COMMIT, THREE) else int(costly)


def described(costly: str) -> str:
    """What is tried, in words."""
    part = chosen_part(costly)
    if part is not None and costly == THREE:
        return f"costly tests: three parts of {PARTS} from {(part + 1) % PARTS} on"
    return f"costly tests: {'all' if part is None else f'part {part} of {PARTS} (--costly={part})'}"


def tried(tests: Sequence[str], costly: str) -> list[bool]:
    """Of each test, by its name with the file, whether it is tried.

    The cases of a file take turns, so each function that has five is tried. Those of the same
    parameters go together, as they mostly share what is made of these.
    """
    part = chosen_part(costly)
    first = (0,) if costly != THREE else (1, 2, 3)
    parts = () if part is None else tuple((part + one) % PARTS for one in first)
    turns: dict[str, dict[str, int]] = defaultdict(dict)
    chosen = []
    for test in tests:
        file, _, name = test.partition("::")
        function, _, parameters = name.partition("[")
        places = turns[file]
        place = places.setdefault(parameters or function, len(places))
        is_of_part = place % PARTS in parts
        chosen.append(part is None or not file.startswith(COSTLY) or is_of_part)
    return chosen
