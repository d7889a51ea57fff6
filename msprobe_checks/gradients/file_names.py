"""How files of a parameter are called; the collector writes what is read here."""

from __future__ import annotations

import re

_UNSAFE = re.compile(r"[/\\:\0]")


def plain_name(name: str) -> str:
    """The name of a parameter as part of a file's name, on every system."""
    return _UNSAFE.sub("_", name)
