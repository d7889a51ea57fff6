"""Without torch there is nothing to record, so these tests are left out."""

from __future__ import annotations

import importlib.util

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["*"]
