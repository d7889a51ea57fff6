"""Regular expressions from outside, within bounds.

Some expressions take for ever on some texts, or all memory to compile, and Python cannot stop its
own matcher; so all of it is done in a process of its own, which can be stopped and may not grow.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading

from msprobe_builder.database.read.fitting import SEPARATOR
from tb_graph_ascend.limits import (
    EXPRESSION_LENGTH,
    EXPRESSION_MEMORY,
    EXPRESSION_SECONDS,
    EXPRESSION_WAIT_SECONDS,
    EXPRESSIONS_AT_ONCE,
)
from tb_graph_ascend.problems import ProblemError, bad_request, try_again

_COPIES = 8  # of the names that matching them needs: their bytes, their text, a list
_SCRIPT = """
import json, re, sys
try:
    import resource
    limit = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
except (ImportError, OSError, ValueError):
    pass  # not every system can; the time limit holds everywhere
try:
    pattern, *names = sys.stdin.buffer.read().decode().split("\\x1f")
    search = re.compile(json.loads(pattern), re.IGNORECASE).search
    answer = [place for place, name in enumerate(names) if search(name)]
except (re.error, RecursionError, OverflowError) as error:
    answer = {"error": str(error)}
except MemoryError:
    answer = {"memory": True}
json.dump(answer, sys.stdout)
"""

_free = threading.BoundedSemaphore(EXPRESSIONS_AT_ONCE)


def matching(pattern: str, names: str) -> list[int]:
    """Places among ``names`` in which the expression is found, whatever the case of letters."""
    if len(pattern) > EXPRESSION_LENGTH:
        raise bad_request(
            "bad_parameter",
            f"The regular expression is longer than {EXPRESSION_LENGTH} characters.",
            "Shorten it.",
        )
    content = (json.dumps(pattern) + SEPARATOR + names).encode()
    if not _free.acquire(timeout=EXPRESSION_WAIT_SECONDS):
        raise try_again(
            "busy",
            f"{EXPRESSIONS_AT_ONCE} other searches by regular expression are running.",
            "Try again in a moment, or search without regex=1.",
        )
    try:
        answer = _match(content)
    finally:
        _free.release()
    if isinstance(answer, list):
        return answer
    if "error" in answer:
        raise bad_request(
            "bad_parameter",
            f"Parameter name is no regular expression: {answer['error']}.",
            "Correct it, or search without regex=1.",
        )
    raise _too_much("needs too much memory")


def _match(content: bytes) -> list[int] | dict[str, str]:
    memory = EXPRESSION_MEMORY + _COPIES * len(content)
    try:
        process = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _SCRIPT, str(memory)],
            input=content,
            capture_output=True,
            timeout=EXPRESSION_SECONDS,
            check=False,
        )
        answer: list[int] | dict[str, str] = json.loads(process.stdout)
    except subprocess.TimeoutExpired as error:
        raise _too_much(f"took longer than {EXPRESSION_SECONDS:.0f} seconds") from error
    except ValueError:  # it died: of its memory, most likely
        return {}
    return answer


def _too_much(what: str) -> ProblemError:
    return bad_request(
        "slow_expression",
        f"The regular expression {what}.",
        "Give a simpler one, without repetitions inside repetitions.",
    )
