"""Regular expressions from outside, within bounds.

Some expressions take for ever on some texts, and Python cannot stop its own matcher; so it works
in a process of its own, which can be stopped.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

from tb_graph_ascend.problems import bad_request

SECONDS = 3.0
MAX_LENGTH = 1000
SEPARATOR = "\x1f"  # of names; no name holds it
_SCRIPT = """
import json, re, sys
pattern, *names = sys.stdin.buffer.read().decode().split("\\x1f")
search = re.compile(json.loads(pattern), re.IGNORECASE).search
found = {name for name in set(names) if search(name)}
json.dump([place for place, name in enumerate(names) if name in found], sys.stdout)
"""


def matching(pattern: str, names: str) -> list[int]:
    """Places among ``names`` in which the expression is found, whatever the case of letters."""
    try:
        if len(pattern) > MAX_LENGTH:
            raise bad_request(
                "bad_parameter",
                f"The regular expression is longer than {MAX_LENGTH} characters.",
                "Shorten it.",
            )
        re.compile(pattern)
        answer = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SCRIPT],
            input=(json.dumps(pattern) + SEPARATOR + names).encode(),
            capture_output=True,
            timeout=SECONDS,
            check=True,
        )
    except (re.error, RecursionError, OverflowError) as error:
        raise bad_request(
            "bad_parameter",
            f"Parameter name is no regular expression: {error}.",
            "Correct it, or search without regex=1.",
        ) from error
    except subprocess.TimeoutExpired as error:
        raise bad_request(
            "slow_expression",
            f"The regular expression took longer than {SECONDS:.0f} seconds.",
            "Give a simpler one, without repetitions inside repetitions.",
        ) from error
    places: list[int] = json.loads(answer.stdout)
    return places
