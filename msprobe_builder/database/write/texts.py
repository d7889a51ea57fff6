"""The texts of a database beside those of a comparison."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable

from msprobe_builder.base.texts import Texts
from msprobe_builder.database.problems import DamagedError
from msprobe_builder.database.read.cells import text


class StoredTexts:
    """Interns texts of table ``text`` as they are needed; both sides share them."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.texts = Texts()
        self._connection = connection
        self._of_stored: dict[int | None, int] = {None: -1}
        self._stored: dict[str, int] = {}

    def load(self, stored: Iterable[int | None]) -> dict[int | None, int]:
        """Id in ``texts`` of each ``text_id``; -1 of NULL. DamagedError when one is missing."""
        wanted = set(stored) - self._of_stored.keys()
        for text_id, value in self._connection.execute(
            "SELECT text_id, text.value FROM json_each(?) AS wanted"
            " JOIN text ON text_id = wanted.value",
            (json.dumps(list(wanted)),),
        ):
            self._of_stored[text_id] = self.texts.id(text(value))
        if missing := wanted - self._of_stored.keys():
            raise DamagedError(f"text {min(missing, key=repr)} is missing")
        return self._of_stored

    def store(self, value: str) -> int:
        """``text_id`` of a text, added to the database when it is new."""
        if value not in self._stored:
            row = self._connection.execute(
                "SELECT text_id FROM text WHERE value = ?", (value,)
            ).fetchone()
            if row is None:
                cursor = self._connection.execute("INSERT INTO text (value) VALUES (?)", (value,))
                self._stored[value] = int(cursor.lastrowid or 0)
            else:
                self._stored[value] = row[0]
        return self._stored[value]
