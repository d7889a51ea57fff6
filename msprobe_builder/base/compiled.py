"""Compiled modules, each of which is optional: all works without them."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def compiled_module(name: str) -> Any:
    """The module of that name; None where there is none, or MSPROBE_COMPILED=0 is set."""
    if os.environ.get("MSPROBE_COMPILED") == "0":
        return None
    try:
        return import_module(name)
    except ImportError:
        return None
