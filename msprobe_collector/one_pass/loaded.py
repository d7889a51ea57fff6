"""The compiled module of recording, None where there is none."""

from __future__ import annotations

from typing import Any

from msprobe_builder.base.compiled import compiled_module

compiled: Any = compiled_module("msprobe_collector.one_pass._compiled")
