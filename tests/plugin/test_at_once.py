"""What several ask for at the same time is made once, and not kept."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Never

import pytest

from tb_graph_ascend.http.at_once import AtOnce
from tests.plugin.conftest import client_of


class Watched(str):
    """A key that tells when somebody has come upon it."""

    met: threading.Event

    def __new__(cls, value: str) -> Watched:
        key = super().__new__(cls, value)
        key.met = threading.Event()
        return key

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        self.met.set()
        return str.__eq__(self, str(other))


def made_twice() -> Never:
    raise AssertionError("made twice")


def test_who_asks_meanwhile_gets_what_the_first_makes() -> None:
    at_once, key = AtOnce(), Watched("measures")
    with ThreadPoolExecutor(1) as pool:
        others = []

        def make() -> bytes:
            others.append(pool.submit(at_once.make, Watched("measures"), made_twice))
            assert key.met.wait(30), "nobody asked"
            assert at_once.make("another", lambda: b"other") == b"other"
            return b"made"

        assert at_once.make(key, make) == b"made"
        assert others[0].result() == b"made"
    assert at_once.make("measures", lambda: b"anew") == b"anew", "nothing is kept"


def test_who_waits_learns_what_went_wrong_and_the_next_may_try() -> None:
    at_once, key = AtOnce(), Watched("measures")
    with ThreadPoolExecutor(1) as pool:
        others = []

        def fail() -> bytes:
            others.append(pool.submit(at_once.make, Watched("measures"), made_twice))
            assert key.met.wait(30), "nobody asked"
            raise LookupError("no such node")

        with pytest.raises(LookupError, match="no such node"):
            at_once.make(key, fail)
        with pytest.raises(LookupError, match="no such node"):
            others[0].result()
    assert at_once.make("measures", lambda: b"anew") == b"anew"


def test_many_who_ask_at_the_same_time_get_the_same(demo_database: Path) -> None:
    ask = client_of(demo_database.parent)
    where = {"file": demo_database.name, "step": 0, "rank": 0}
    alone = ask("measures", **where).data
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ask("measures", **where).data, range(24)))
    assert set(found) == {alone}
