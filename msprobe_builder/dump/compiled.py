"""The compiled module of reading where there is one, which is optional: all works without it.

With MSPROBE_COMPILED=0 in the environment nothing of it is used.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def _load() -> Any:
    if os.environ.get("MSPROBE_COMPILED") == "0":
        return None
    try:
        return import_module("msprobe_builder.dump._compiled")
    except ImportError:
        return None


compiled: Any = _load()
