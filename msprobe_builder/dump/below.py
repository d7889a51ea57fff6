"""The one dump in a folder that a user names, or somewhere below it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.dump.discover import is_dump, packed_dump, parts_of_dump

_DEEPEST = 4  # folders between the one that is named and the dump
_SHOWN = 5


def dump_below(folder: Path) -> Path:
    """The folder that ``discover`` reads: ``folder`` itself, or the only dump below it.

    The dump.json of a rank stands for its folder. UsageError names what is there instead.
    """
    if folder.name == "dump.json" and folder.is_file():
        folder = folder.parent
    if not folder.exists():
        raise UsageError(f"{folder} does not exist; give the folder of a dump.")
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is a file, no folder of a dump; a compare.json is given with -i."
        )
    dumps = list(_dumps(folder, _DEEPEST))
    if len(dumps) == 1:
        return dumps[0]
    if dumps:
        names = [str(dump.relative_to(folder)) for dump in dumps]
        raise UsageError(f"{folder} holds {len(dumps)} dumps, {_listed(names)}; name one of them.")
    if packed := packed_dump(folder):
        raise UsageError(f"{packed} is packed; unpack it, and what lies beside it.")
    found = sorted(one.name for one in folder.iterdir())
    what = f"holds {_listed(found)}, but no dump" if found else "is empty"
    raise UsageError(
        f"{folder} {what}; give the folder that was recorded into, with dump.json in it, or rank0, "
        "… or step0, …."
    )


def _dumps(folder: Path, depth: int) -> Iterator[Path]:
    """Dumps, each as the folder with its steps or ranks, in order of their names."""
    try:
        is_found = is_dump(folder) or any(map(_has_ranks, parts_of_dump(folder)))
        entries = [] if is_found or not depth else sorted(folder.iterdir())
    except PermissionError:  # below what the user named lies what is another's
        return
    if is_found:
        yield folder
    for entry in entries:
        if not entry.name.startswith(".") and entry.is_dir():
            yield from _dumps(entry, depth - 1)


def _has_ranks(part: Path) -> bool:
    return is_dump(part) or any(map(is_dump, parts_of_dump(part)))


def _listed(names: list[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more:,} more" if more > 0 else "")
