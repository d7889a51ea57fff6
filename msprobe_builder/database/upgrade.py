"""A copy of a database of an older version in today's form."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.publish import published, reserve
from msprobe_builder.database.migrations import SCHEMA_VERSION
from msprobe_builder.database.open import BUSY_SECONDS, connect, opened, prepare_writing
from msprobe_builder.database.problems import DamagedError, FileError, file_error


def upgraded_copy(database: Path, output: Path) -> int:
    """Write the copy to ``output``, which must not exist; returns its schema version.

    BuildError with one sentence when it cannot be made; nothing is left behind then.
    """
    target = reserve(output.parent, output.name)
    with opened(database, as_it_is=True) as source, published(target) as temporary:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666))
        try:
            with closing(connect(temporary, "mode=rw", BUSY_SECONDS)) as copy:
                source.backup(copy)
                copy.execute("BEGIN IMMEDIATE")
                prepare_writing(copy, str(database))
                copy.execute("COMMIT")
        except FileError as error:
            raise BuildError(str(error)) from error
        except (sqlite3.Error, DamagedError) as error:
            raise BuildError(str(file_error(str(database), error))) from error
    return SCHEMA_VERSION
