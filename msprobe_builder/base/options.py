"""How to compare: what the command's flags and the Python API choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class BuildOptions:
    """How to compare; the same for every step and rank.

    ``layer_mapping`` turns matching by names alone on, ``layer_mapping_file`` adds its rules;
    ``match_file`` holds pairs of nodes that are matched whatever the rule says. What
    these leave over is aligned by evidence unless ``exact``. ``device`` is cpu, cuda, npu, or one
    of several as cuda:1.
    """

    fuzzy_match: bool = False
    layer_mapping: bool = False
    layer_mapping_file: Path | None = None
    match_file: Path | None = None
    exact: bool = False
    overflow_check: bool = False
    allow_missing: bool = False
    device: str = "cpu"  # where errors of single elements are computed


DEFAULT_OPTIONS = BuildOptions()
