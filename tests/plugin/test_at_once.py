"""What several ask for at the same time is made once; large answers are kept, within bounds."""

from __future__ import annotations

import gzip
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Never

import pytest

from tb_graph_ascend.http.at_once import AtOnce
from tb_graph_ascend.http.responses import Body
from tb_graph_ascend.limits import KEPT_FROM
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

        def make() -> Body:
            others.append(pool.submit(at_once.make, Watched("measures"), made_twice))
            assert key.met.wait(30), "nobody asked"
            assert at_once.make("another", lambda: Body(b"other")) == Body(b"other")
            return Body(b"made")

        assert at_once.make(key, make) == Body(b"made")
        assert others[0].result() == Body(b"made")
    assert at_once.make("measures", lambda: Body(b"anew")) == Body(b"anew"), (
        "small ones are not kept"
    )


def test_who_waits_learns_what_went_wrong_and_the_next_may_try() -> None:
    at_once, key = AtOnce(), Watched("measures")
    with ThreadPoolExecutor(1) as pool:
        others = []

        def fail() -> Body:
            others.append(pool.submit(at_once.make, Watched("measures"), made_twice))
            assert key.met.wait(30), "nobody asked"
            raise LookupError("no such node")

        with pytest.raises(LookupError, match="no such node"):
            at_once.make(key, fail)
        with pytest.raises(LookupError, match="no such node"):
            others[0].result()
    assert at_once.make("measures", lambda: Body(b"anew")) == Body(b"anew")


def test_many_who_ask_at_the_same_time_get_the_same(demo_database: Path) -> None:
    ask = client_of(demo_database.parent)
    where = {"file": demo_database.name, "step": 0, "rank": 0}
    alone = ask("measures", **where).data
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: ask("measures", **where).data, range(24)))
    assert set(found) == {alone}


def test_of_large_answers_those_asked_for_last_are_kept() -> None:
    def large(letter: bytes) -> Body:
        return Body(letter * KEPT_FROM, "gzip")

    at_once = AtOnce(room=2 * KEPT_FROM)
    for letter in (b"a", b"b"):
        at_once.make(letter.decode(), lambda letter=letter: large(letter))  # type: ignore[misc]
    assert at_once.make("a", made_twice) == large(b"a")
    at_once.make("c", lambda: large(b"c"))
    assert at_once.make("a", made_twice) == large(b"a")
    assert at_once.make("c", made_twice) == large(b"c")
    assert at_once.make("b", lambda: large(b"B")) == large(b"B"), "there was room for two"


def test_what_exceeds_all_room_is_not_kept_and_drives_nothing_out() -> None:
    at_once = AtOnce(room=KEPT_FROM)
    fitting, too_large = Body(b"a" * KEPT_FROM), Body(b"b" * (KEPT_FROM + 1))
    at_once.make("fitting", lambda: fitting)
    assert at_once.make("large", lambda: too_large) == too_large
    assert at_once.make("fitting", made_twice) == fitting
    assert at_once.make("large", lambda: Body(b"anew")) == Body(b"anew")


def test_compressed_and_plain_answers_are_not_mixed_up(
    demo_database: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tb_graph_ascend.http.at_once.KEPT_FROM", 1)  # all are kept
    ask = client_of(demo_database.parent)
    where = {"file": demo_database.name, "step": 0, "rank": 0, "side": 0}
    for _ in range(2):
        plain = ask("skeleton", **where)
        packed = ask("skeleton", **where, headers={"Accept-Encoding": "gzip"})
        assert plain.content_encoding is None
        assert packed.content_encoding == "gzip"
        assert gzip.decompress(packed.data) == plain.data
