"""What is done about an error that nobody foresaw: a sentence, a report in a file, status 70."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from msprobe_builder.base.printable import visible
from msprobe_builder.base.version import __version__

EXIT_FAULT = 70  # EX_SOFTWARE of sysexits.h


def fault_sentence(error: BaseException) -> str:
    """What to tell about an error of ours; the report lies in a file then.

    Where no file can be written the sentence ends with the report itself.
    """
    import platform
    import tempfile
    import traceback

    lines = [
        f"msprobe-graph {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"Command: {sys.argv}",
        "",
        *traceback.format_exception(error),
    ]
    report = "\n".join(visible(line) for text in lines for line in text.splitlines()) + "\n"
    said = f"this is a fault of ours, not of what you gave ({type(error).__name__})"
    path = None
    with suppress(OSError):
        handle, path = tempfile.mkstemp(prefix="msprobe-fault-", suffix=".txt")
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(report)
    if path is None:
        return f"{said}; please report this:\n{report}"
    return f"{said}; please report it with {path}."
