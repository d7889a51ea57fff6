"""Layer mapping: rules, their file, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.match.rules import Rule, read_rules
from msprobe_builder.match.translate import translate
from tests.builder.match.models import Api, Model, Module, Result, dump_of, match

LINEAR = Module("fc", "Linear", (Api("Torch.addmm"),))


@pytest.fixture
def mapping(tmp_path: Path) -> Path:
    return tmp_path / "mapping.yaml"


def mapped(file: Path, rules: str, npu: Model, bench: Model, *, structure: bool = False) -> Result:
    file.write_text(rules, encoding="utf-8")
    options = BuildOptions(layer_mapping=True, layer_mapping_file=file)
    return match(dump_of(npu, structure=structure), dump_of(bench, structure=structure), options)


def chain(*layers: str, inside: tuple[Module | Api, ...] = (LINEAR,)) -> Model:
    """Modules in one another; each class is the layer's name in title case."""
    for layer in reversed(layers):
        inside = (Module(layer, layer.title(), inside),)
    return inside


def found(result: Result) -> list[tuple[str, str]]:
    return [(one.code, one.message.partition(", ")[2]) for one in result.diagnostics]


@pytest.mark.parametrize("structure", [False, True])
def test_rules_translate_layer_by_layer_below_modules_of_their_class(
    mapping: Path, structure: bool
) -> None:
    rules = "TopLayer:\n  net: model\nNet:\n  encoder.block: decoder\nBlock:\n  fc: dense (Dense)\n"
    dense = Module("dense", "Dense", (Api("Torch.addmm"),))
    result = mapped(
        mapping,
        rules,
        chain("net", "encoder", "block"),
        chain("model", "decoder", inside=(dense,)),
        structure=structure,
    )
    linear = "Module.net.encoder.block.fc.Linear.forward.0"
    assert result.pairs() == {
        "Module.net.Net.forward.0": "Module.model.Model.forward.0",
        "Module.net.encoder.block.Block.forward.0": "Module.model.decoder.Decoder.forward.0",
        linear: "Module.model.decoder.dense.Dense.forward.0",
        "Torch.addmm.0.forward": "Torch.addmm.0.forward",
    }
    assert not result.diagnostics
    assert result.why("Module.net.encoder.Encoder.forward.0")[0] == "NO_SUCH_NAME"


def test_cell_is_another_name_of_the_top_layer(mapping: Path) -> None:
    result = mapped(mapping, "Cell: {net: model}", chain("net"), chain("model"))
    assert len(result.pairs()) == 3


def test_types_shapes_and_numbers_of_parameters_do_not_count(mapping: Path) -> None:
    npu = (Module("a", "A", (Api("Torch.add", (4,)),), (4, 8)),)
    bench = (Module("a", "B", (Api("Torch.add", (None, 2)),), ()),)
    assert len(mapped(mapping, "", npu, bench).pairs()) == 2


def test_calls_in_a_mapped_module_are_aligned(mapping: Path) -> None:
    npu = (Module("a", "A", tuple(map(Api, ("Torch.mul", "Torch.exp", "Torch.mul")))),)
    bench = (Module("a", "B", tuple(map(Api, ("Torch.exp", "Torch.mul")))),)
    pairs = mapped(mapping, "", npu, bench).pairs()
    assert pairs["Torch.mul.1.forward"] == "Torch.mul.0.forward"
    assert "Torch.mul.0.forward" not in pairs


def test_mindspore_cells_and_packages_are_those_of_pytorch(mapping: Path) -> None:
    mapping.write_text("Net: {fc: dense}", encoding="utf-8")
    calls = ("Mint.add", "MintFunctional.relu", "Tensor.add", "MintDistributed.all_reduce")
    theirs = ("Torch.add", "Functional.relu", "Tensor.add", "Distributed.all_reduce")
    npu = chain("net", inside=(Module("fc", "Dense", tuple(map(Api, calls))),))
    bench = chain("net", inside=(Module("dense", "Linear", tuple(map(Api, theirs))),))
    options = BuildOptions(layer_mapping=True, layer_mapping_file=mapping)
    pairs = match(dump_of(npu, prefix="Cell"), dump_of(bench), options).pairs()
    assert pairs["Cell.net.fc.Dense.forward.0"] == "Module.net.dense.Linear.forward.0"
    for mine, other in zip(calls, theirs, strict=True):
        assert pairs[f"{mine}.0.forward"] == f"{other}.0.forward"


def test_packages_stay_apart_within_one_framework(mapping: Path) -> None:
    npu, bench = chain("a", inside=(Api("Torch.relu"),)), chain("a", inside=(Api("NPU.relu"),))
    assert "Torch.relu.0.forward" not in mapped(mapping, "", npu, bench).pairs()


def test_a_rule_may_end_with_a_call_wherever_its_counterpart_stands(mapping: Path) -> None:
    kernel, other = Api("Functional.flash_attention"), Api("NPU.npu_fusion_attention")
    npu = chain("net", "attention", inside=(kernel, Api("Torch.tanh"), kernel))
    core = Module("core", "Core", (other, Api("Torch.tanh"), other))
    bench = chain("net", "attention", inside=(core,))
    rules = "Attention:\n  flash_attention: core.npu_fusion_attention\n"
    result = mapped(mapping, rules, npu, bench)
    assert found(result) == []
    pairs = result.pairs()
    for number in range(2):
        call = f"Functional.flash_attention.{number}.forward"
        assert pairs[call] == f"NPU.npu_fusion_attention.{number}.forward"
    # A rule that stands below another class, or ends with a call that nobody makes, is told.
    for text in (
        "Net:\n  flash_attention: core.npu_fusion_attention\n",
        "Attention:\n  gone: core\n",
    ):
        assert [code for code, _ in found(mapped(mapping, text, npu, bench))] == [
            "mapping_rule_unused"
        ]


def test_unused_rules_are_reported_with_line_and_cause(mapping: Path) -> None:
    rules = "Net:\n  fc: fc\n  gone: away\n\nNett:\n  fc: dense\n"
    assert found(mapped(mapping, rules, chain("net"), chain("net"))) == [
        (
            "mapping_rule_unused",
            "line 3: no module of class 'Net' has 'gone' below it in the debug run.",
        ),
        (
            "mapping_rule_unused",
            "line 6: the debug run has no module of class 'Nett' (the nearest is 'Net').",
        ),
    ]


def test_rules_that_lead_nowhere_are_reported(mapping: Path) -> None:
    result = mapped(mapping, "Net:\n  fc: dense\n", chain("net"), chain("net"))
    [(code, message)] = found(result)
    assert code == "mapping_rule_without_target"
    assert message == "line 2: it leads to 'net.dense', which the reference does not have."


def test_two_layers_on_one_are_reported_and_matched_once(mapping: Path) -> None:
    npu = chain("net", inside=(Module("a", "A"), Module("b", "B")))
    bench = chain("net", inside=(Module("b", "B"),))
    result = mapped(mapping, "Net:\n  a: b\n", npu, bench)
    assert result.pairs()["Module.net.a.A.forward.0"] == "Module.net.b.B.forward.0"
    assert result.why("Module.net.b.B.forward.0") == (
        "PARTNER_TAKEN",
        "Module.net.b.B.forward.0",
        "matched with Module.net.a.A.forward.0",
    )
    assert found(result) == [
        (
            "mapping_rule_ambiguous",
            "line 2: 'net.a' and 'net.b' both lead to 'net.b'; "
            "the first was matched, the other is left.",
        )
    ]


def test_rules_for_the_other_direction_are_recognised(mapping: Path) -> None:
    result = mapped(mapping, "Model:\n  dense: fc\n", chain("net"), chain("model", "dense"))
    [one] = result.diagnostics
    assert one.code == "mapping_reversed"
    assert "1 would fit reference to debug" in one.message


def test_rules_of_which_some_fit_either_way_are_recognised_as_well(mapping: Path) -> None:
    """As with a name that is the same on both sides: one hint, not a warning for each rule."""
    npu = chain("net", inside=(Module("fc", "Linear"), Module("proj", "Proj"), Module("a", "A")))
    bench = chain(
        "net", inside=(Module("dense", "Linear"), Module("out", "Proj"), Module("a", "A"))
    )
    rules = "Net:\n  a: a\n  dense: fc\n  out: proj\n"
    [one] = mapped(mapping, rules, npu, bench).diagnostics
    assert one.code == "mapping_reversed"
    assert "2 of its 3 rules do not fit debug to reference, and all of them would" in one.message
    assert not mapped(mapping, "Net:\n  a: a\n  fc: dense\n  proj: out\n", npu, bench).diagnostics


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "Net:\n"])
def test_a_file_without_rules_is_said_to_hold_none(mapping: Path, text: str) -> None:
    [one] = mapped(mapping, text, chain("net"), chain("net")).diagnostics
    assert (one.code, one.severity) == ("mapping_empty", "warning")
    assert "holds no rules" in one.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [1", "is not valid YAML at line 1: expected ',' or ']'"),
        ("- a\n- b\n", "line 1 must hold 'class name:'"),
        ("Net:\n  a: b\nModel: x\n", "line 3 gives 'Model' no rules"),
        ("Net:\n  a: b\n  a: c\n", "line 3 repeats 'a' of line 2"),
        ("Net:\n  a: b\nNet:\n  c: d\n", "line 3 repeats 'Net' of line 1"),
        ("Net:\n  a:\n    b: c\n", "line 3 must hold a path here"),
        ("Net:\n  a:\n", "line 2 must hold a path here"),
        ("Net:\n  a: (remark)\n", "line 2 holds '', which is no path"),
        ("Net:\n  a..b: c\n", "line 2 holds 'a..b', which is no path"),
        ("Net: {a: b}\n---\nNet: {a: b}\n", "is not valid YAML at line 2"),
        ("[" * 10_000, "is not valid YAML"),
    ],
)
def test_a_bad_file_is_one_sentence_with_its_line(mapping: Path, text: str, problem: str) -> None:
    mapping.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_rules(mapping)
    assert str(mapping) in str(caught.value)
    assert problem in str(caught.value)


def test_a_missing_file_and_one_that_is_no_text(mapping: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_rules(mapping)
    mapping.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="UTF-8"):
        read_rules(mapping)


def test_tags_of_the_file_make_no_objects(mapping: Path, tmp_path: Path) -> None:
    mapping.write_text(
        f"Net:\n  a: !!python/object/apply:os.mkdir ['{tmp_path / 'made'}']\n", encoding="utf-8"
    )
    with pytest.raises(UsageError, match="line 2 must hold a path"):
        read_rules(mapping)
    assert not (tmp_path / "made").exists()


parts = st.sampled_from("abc")
paths = st.lists(parts, min_size=1, max_size=3).map(tuple)


@given(st.lists(st.tuples(paths, paths), max_size=4, unique_by=lambda rule: rule[0]), paths)
def test_the_longest_rule_wins_and_the_rest_stays(
    rules: list[tuple[tuple[str, ...], tuple[str, ...]]], path: tuple[str, ...]
) -> None:
    numbered = tuple(Rule("TopLayer", npu, bench, 1) for npu, bench in rules)
    result = translate([path], {}, numbered)[path].path
    fitting = [rule for rule in rules if path[: len(rule[0])] == rule[0]]
    if fitting:
        npu, bench = max(fitting, key=lambda rule: len(rule[0]))
        assert result == bench + path[len(npu) :]
    else:
        assert result == path


def test_diagnostics_name_the_rule(mapping: Path) -> None:
    result = mapped(mapping, "Net:\n  gone: away\n  fc: fc\n", chain("net"), chain("net"))
    [one] = result.diagnostics
    assert one == Diagnostic("warning", one.code, one.said, "Net: gone: away")
