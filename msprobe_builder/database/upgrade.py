"""A copy of a database of an older version in today's form."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

from msprobe_builder.base.publish import published, reserve
from msprobe_builder.database.connection import connect_own
from msprobe_builder.database.migrations import SCHEMA_VERSION
from msprobe_builder.database.open import opened, prepare_writing
from msprobe_builder.database.problems import damaged, in_words


def upgraded_copy(database: Path, output: Path) -> int:
    """Write the copy to ``output``, which must not exist; returns its schema version.

    BuildError with one sentence when it cannot be made, also of a damaged file; nothing is left
    behind then.
    """
    target = reserve(output.parent, output.name)
    with opened(database, as_it_is=True) as source, published(target) as temporary:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o666))
        with in_words(str(database)), closing(connect_own(temporary)) as copy:
            source.backup(copy)
            [[wrong], *_] = copy.execute("PRAGMA quick_check(1)").fetchall()
            if wrong != "ok":
                raise damaged(str(database), f"SQLite: {' '.join(str(wrong).split())}")
            copy.execute("BEGIN IMMEDIATE")
            prepare_writing(copy, str(database))
            copy.execute("COMMIT")
    return SCHEMA_VERSION
