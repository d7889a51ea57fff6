"""How to compare: what the command's flags and the Python API choose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CPU = "cpu"


@dataclass(frozen=True)
class BuildOptions:
    """How to compare; the same for every step and rank.

    ``layer_mapping`` turns matching by names alone on, ``layer_mapping_file`` adds its rules;
    ``match_file`` holds pairs of nodes that are matched whatever the rule says. What
    these leave over is aligned by evidence unless ``exact``. ``cell_mapping`` and ``api_mapping``
    turn on matching of cells with modules and of functions across packages, their files add
    rules; ``data_mapping_file`` names values that belong together. With ``flat`` a dump without
    a hierarchy, as of level L1, is a list of calls. Without ``verdict`` nobody is accused;
    ``without`` names kinds of clues and explanations that it leaves out. ``device`` is cpu, cuda,
    npu, or one of several as cuda:1.
    """

    fuzzy_match: bool = False
    layer_mapping: bool = False
    layer_mapping_file: Path | None = None
    match_file: Path | None = None
    exact: bool = False
    cell_mapping: bool = False
    cell_mapping_file: Path | None = None
    api_mapping: bool = False
    api_mapping_file: Path | None = None
    data_mapping_file: Path | None = None
    flat: bool = False
    overflow_check: bool = False
    allow_missing: bool = False
    verdict: bool = True
    without: tuple[str, ...] = ()
    device: str = CPU  # where errors of single elements are computed


DEFAULT_OPTIONS = BuildOptions()
