"""No two nodes of a merged model have one name, and none is renamed without need."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.dump.names import Direction, Kind, Name
from msprobe_builder.merge.join.naming import merged_names
from msprobe_builder.merge.join.stages import MergedNode

STEMS = ("DefaultModel", "DefaultModel.again", "Module.a.parameters")


@given(st.lists(st.sampled_from(STEMS), max_size=8))
def test_what_repeats_is_told_apart(stems: list[str]) -> None:
    """Of names without a number: what comes first keeps its own."""
    names = [Name(Kind.MODULE, stem, Direction.NONE, 0) for stem in stems]
    found = [name.stem for name in merged_names([MergedNode(name, []) for name in names], [])]
    assert len(set(found)) == len(found)
    seen: set[str] = set()
    for stem, new in zip(stems, found, strict=True):
        assert (new == stem) == (stem not in seen)
        assert new.removesuffix(".again" * ((len(new) - len(stem)) // len(".again"))) == stem
        seen.add(new)
