"""The fuzzy rule on small models, each with what makes it hard."""

from __future__ import annotations

from msprobe_builder.base.options import BuildOptions
from msprobe_builder.dump.source import InMemoryDump
from tests.builder.match.models import Api, Model, Module, Result, dump_of, match

FUZZY = BuildOptions(fuzzy_match=True)
BLOCK = "Module.a.Block.forward.0"


def fuzzy(npu: Model, bench: Model) -> Result:
    return match(dump_of(npu), dump_of(bench), FUZZY)


def block(*stems: str) -> Model:
    return (Module("a", "Block", tuple(map(Api, stems))),)


def test_b25_one_extra_call_does_not_misalign_the_rest() -> None:
    """Counting occurrences would pair both mul.0 and leave mul.1 alone."""
    result = fuzzy(
        block("Torch.add", "Torch.mul", "Torch.exp", "Torch.mul", "Torch.log"),
        block("Torch.add", "Torch.exp", "Torch.mul", "Torch.log"),
    )
    assert result.pairs()["Torch.mul.1.forward"] == "Torch.mul.0.forward"
    assert result.why("Torch.mul.0.forward") == (
        "EXTRA_CALL",
        "Torch.mul.0.forward",
        "2 such calls in the module against 1",
    )


def test_b25_collections_are_matched_by_what_they_hold() -> None:
    module = Module("a", "Block")
    first, second = (Api("Torch.one"), Api("Torch.two")), (Api("Torch.three"), Api("Torch.four"))
    npu = (Api("Torch.x"), Api("Torch.y"), module, *first, module, *second)
    result = fuzzy(npu, (module, *first, module, *second))
    pairs = result.pairs()
    assert pairs["Apis_Between_Modules.1"] == "Apis_Between_Modules.0"
    assert pairs["Apis_Between_Modules.2"] == "Apis_Between_Modules.1"
    assert result.why("Apis_Between_Modules.0")[0] == "CALLS_UNMATCHED"


def test_collections_without_common_calls_are_matched_by_their_neighbours() -> None:
    module = Module("a", "Block")
    npu = (Api("Torch.x"), Api("Torch.y"), module, Api("Torch.one"), Api("Torch.two"), module)
    bench = (module, Api("Torch.three"), Api("Torch.four"), module)
    pairs = fuzzy(npu, bench).pairs()
    assert pairs["Apis_Between_Modules.1"] == "Apis_Between_Modules.0"
    assert "Apis_Between_Modules.0" not in pairs


def test_modules_match_below_other_parents() -> None:
    inner = Module("b", "Linear", (Api("Torch.addmm"),))
    npu, bench = dump_of((Module("a", "Block", (inner,)),)), dump_of((inner,))
    # The same layer, hung below the root on one side only.
    name = "Module.a.b.Linear.forward.0"
    bench = InMemoryDump(
        {"task": "statistics", "data": {name: npu.dump["data"][name]} | dict(bench.dump["data"])},
        {name: None, "Torch.addmm.0.forward": name},
    )
    assert match(npu, bench, FUZZY).pairs() == {
        name: name,
        "Torch.addmm.0.forward": "Torch.addmm.0.forward",
    }
    assert match(npu, bench).why(name)[0] == "OTHER_PARENT"


def test_types_may_differ_but_not_shapes_nor_the_number_of_parameters() -> None:
    def of(*sizes: int | None) -> Model:
        return (Module("a", "Block", (Api("Torch.add"),), sizes),)

    assert BLOCK in fuzzy(of(4), of(4)).pairs()
    assert fuzzy(of(4), of(8)).why(BLOCK) == ("OTHER_SHAPE", BLOCK, "input.0: [4] against [8]")
    assert fuzzy(of(4), of(4, 4)).why(BLOCK) == (
        "OTHER_PARAMETER_COUNT",
        BLOCK,
        "1 input, 1 output against 2 inputs, 1 output",
    )
    number, text = dump_of(of(None)), dump_of(of(None))
    text.dump["data"][BLOCK]["input_args"] = [{"type": "str", "value": "x"}]
    assert BLOCK in match(number, text, FUZZY).pairs()
    assert match(number, text).why(BLOCK) == (
        "OTHER_TYPE",
        BLOCK,
        "input.0: int against str",
    )


def test_module_calls_with_another_number_stay_unmatched() -> None:
    result = fuzzy((*block(), *block()), block())
    assert result.why("Module.a.Block.forward.1")[0] == "NO_SUCH_NAME"


def test_calls_below_an_unmatched_module() -> None:
    result = fuzzy(block("Torch.add"), (Module("a", "Other", (Api("Torch.add"),)),))
    assert result.why(BLOCK)[:2] == ("OTHER_CLASS", "Module.a.Other.forward.0")
    assert result.pairs() == {}
    assert result.why("Torch.add.0.forward")[:2] == ("PARENT_UNMATCHED", "Torch.add.0.forward")


def test_the_nearest_call_of_another_shape_is_the_candidate() -> None:
    def of(*sizes: int) -> Model:
        calls = (Api("Torch.mul", (size,)) for size in sizes)
        return (Module("a", "Block", (*calls, Api("Torch.end"))),)

    result = fuzzy(of(4, 5, 6), of(4, 7, 6))
    assert result.why("Torch.mul.1.forward") == (
        "OTHER_SHAPE",
        "Torch.mul.1.forward",
        "input.0: [5] against [7]",
    )
    assert result.why("Torch.mul.1.forward", bench=True)[1] == "Torch.mul.1.forward"


def test_what_stands_at_the_same_place_is_the_candidate_of_a_replaced_call() -> None:
    result = fuzzy(
        block("Torch.add", "NPU.fused", "Torch.mul"), block("Torch.add", "Torch.slow", "Torch.mul")
    )
    assert result.why("NPU.fused.0.forward")[:2] == ("NO_SUCH_NAME", "Torch.slow.0.forward")
