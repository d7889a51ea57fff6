"""The dumps of a build that are given as folders, in place of a compare.json, and their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.side_names import side_name
from msprobe_builder.dump.below import dump_below
from msprobe_builder.pipeline.config import BuildConfig


def folders_config(folders: Sequence[Path]) -> BuildConfig:
    """The build of one folder alone, or of the run under debug and then its reference.

    UsageError for a folder without one dump, for the same dump twice, and for more than two.
    """
    if len(folders) > 2:
        raise UsageError(
            f"{len(folders)} folders were given; give the run under debug and then its "
            "reference, or one run alone."
        )
    found = [dump_below(folder) for folder in folders]
    if len(found) > 1 and found[0].samefile(found[1]):
        raise UsageError(
            f"{folders[0]} and {folders[1]} are the same dump, {found[0].resolve()}; give another "
            "run as reference, or one folder alone."
        )
    return BuildConfig(found[0], found[1] if found[1:] else None, print_compare_log=False)


def checked_names(given: Sequence[str], sides: int) -> tuple[str, ...]:
    """What the user calls each of so many sides, or nothing; UsageError where that is unclear."""
    if given and (len(given) != sides or not all(map(side_name, given))):
        what = "one name for each of the two runs" if sides == 2 else "one name for the one run"
        raise UsageError(
            f"--names takes {what}, not {len(given)}; put a name of several words in quotation"
            " marks, and --names behind the folders."
        )
    if len(set(given)) != len(given):
        raise UsageError("--names gives both runs the same name; give them different ones.")
    return tuple(given)
