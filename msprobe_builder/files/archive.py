"""Zip files from outside: what they become is known before anything is unpacked."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msprobe_builder.base.limits import LEAST_UNPACKED, MIB, MOST_ENTRIES, MOST_RATIO
from msprobe_builder.files.regular import UnreadableFileError, open_regular


@contextmanager
def opened_zip(path: Path, largest: int) -> Iterator[zipfile.ZipFile]:
    """A regular zip file that becomes at most ``largest`` bytes.

    OSError with the reason as ``strerror`` for one that becomes more, or much more than it is
    itself; zipfile.BadZipFile for what is none.
    """
    with os.fdopen(open_regular(path), "rb") as file, zipfile.ZipFile(file) as archive:
        require_size(path, file, archive, largest)
        yield archive


def require_size(path: Path, file: IO[bytes], archive: zipfile.ZipFile, largest: int) -> None:
    """The same of an archive that is open already."""
    entries = archive.infolist()
    if len(entries) > MOST_ENTRIES:
        raise UnreadableFileError(0, f"it holds more than {MOST_ENTRIES:,} files", str(path))
    total = sum(entry.file_size for entry in entries)
    own = os.fstat(file.fileno()).st_size
    most = min(largest, max(LEAST_UNPACKED, MOST_RATIO * own))
    if total > most and total > own:
        problem = f"it would become {total // MIB:,} MiB, more than the {most // MIB:,} it may"
        raise UnreadableFileError(0, problem, str(path))
