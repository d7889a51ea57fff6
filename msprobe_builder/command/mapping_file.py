"""The file of ``--write-mapping``: refused before the build, written after it."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.printable import printable


def check_free(mapping: Path) -> None:
    """Refuse a file that could not be written after the build, before it."""
    try:
        mapping.open("x").close()
        mapping.unlink()
    except FileExistsError as error:
        raise UsageError(f"{mapping} exists already; give --write-mapping another name.") from error
    except OSError as error:
        raise UsageError(
            f"Cannot write {printable(str(mapping))}: {error.strerror}; give --write-mapping "
            "another name."
        ) from error


def write_found_mapping(path: Path, file: Path) -> None:
    """Write the layers that the database at ``path`` matched under other names into ``file``."""
    from msprobe_builder.database.open import opened
    from msprobe_builder.export.layer_mapping import write_mapping

    with opened(path) as connection:
        write_mapping(connection, file)
