"""Collections of calls between modules: partners by most of their calls, or by their place."""

from __future__ import annotations

from msprobe_builder.base.options import BuildOptions
from tests.builder.match.models import Api, Model, Module, dump_of, match

LAYER_MAPPING = BuildOptions(layer_mapping=True)


def run(*stems: str) -> Model:
    return tuple(Api(f"Torch.{stem}") for stem in stems)


def collections(npu: Model, bench: Model) -> dict[str, str]:
    pairs = match(dump_of(npu), dump_of(bench), LAYER_MAPPING).pairs()
    return {own: other for own, other in pairs.items() if own.startswith("Apis_Between_Modules")}


def test_a_collection_belongs_to_the_one_that_has_most_of_its_calls() -> None:
    """A module more in the npu run cuts the collection: three calls before it, one behind."""
    npu = (*run("a", "b", "c"), Module("extra", "Extra", run("x")), *run("d", "e"))
    bench = run("a", "b", "c", "d")
    assert collections(npu, bench) == {"Apis_Between_Modules.0": "Apis_Between_Modules.0"}
    npu = (*run("y", "a"), Module("extra", "Extra", run("x")), *run("b", "c", "d"))
    assert collections(npu, bench) == {"Apis_Between_Modules.1": "Apis_Between_Modules.0"}


def test_the_strongest_claim_comes_first_and_others_take_what_is_left() -> None:
    cut = Module("extra", "Extra", run("x"))
    npu = (*run("a", "b"), cut, *run("c", "d", "e"))
    bench = (*run("a", "b", "c", "d", "e"), Module("m", "M", ()), *run("f", "g"))
    # Of five calls the first collection has two and the second three.
    assert collections(npu, bench)["Apis_Between_Modules.1"] == "Apis_Between_Modules.0"


def test_without_common_calls_they_stand_between_the_same_modules() -> None:
    first, second = Module("a", "Block", run("x")), Module("b", "Block", run("y"))
    npu = (first, *run("p", "q"), second, *run("r", "s"))
    bench = (first, *run("t", "u"), second, *run("v", "w"))
    assert collections(npu, bench) == {
        f"Apis_Between_Modules.{number}": f"Apis_Between_Modules.{number}" for number in range(2)
    }
