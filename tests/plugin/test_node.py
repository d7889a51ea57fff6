"""One node in full: names, stack, why it is unmatched, and its parameters beside its partner's."""

from __future__ import annotations

from math import inf, isnan

from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.codes import Section
from msprobe_builder.database.read.parameters import Comparison, Parameter, pair_parameters
from tb_graph_ascend.generated import graph_pb2 as pb
from tests.plugin.conftest import Ask, node


def test_both_nodes_with_names_and_ancestors(ask: Ask) -> None:
    detail = node(ask, index=3)
    above = ["DefaultModel", "Module.model.Net.forward.0", "Module.model.fc.Linear.forward.0"]
    assert (detail.npu.index, detail.npu.name) == (3, "Functional.linear.3.forward")
    assert (detail.bench.index, detail.bench.name) == (3, "Functional.linear.3.forward")
    assert list(detail.npu.path) == above
    assert list(detail.bench.path) == above
    assert (detail.npu.kind, detail.npu.grade) == (pb.KIND_API, pb.GRADE_SEVERE)
    assert (detail.npu.error, detail.npu.overflow) == (1.0, pb.OVERFLOW_CRITICAL)
    assert not detail.bench.HasField("error")
    assert (detail.npu.match_source, detail.bench.match_source) == ("exact", "exact")


def test_a_node_can_be_asked_for_from_either_side(ask: Ask) -> None:
    assert node(ask, side="npu", index=6) == node(ask, side="bench", index=5)
    assert node(ask, side="npu", index=6).npu.name == "Tensor.add.2.backward"
    assert node(ask, side="npu", index=6).bench.name == "Tensor.add.1.backward"
    assert node(ask, side="npu", index=6).bench.match_source == "fuzzy"


def test_names_without_direction_stand_alone(ask: Ask) -> None:
    assert node(ask, index=5).npu.name == "Apis_Between_Modules.0"
    root = node(ask, index=0).npu
    assert (root.name, list(root.path)) == ("DefaultModel", [])


def test_an_unmatched_node_names_reason_and_nearest_candidate(ask: Ask) -> None:
    detail = node(ask, index=4)
    assert not detail.HasField("bench")
    assert detail.npu.unmatched_reason == "no_such_name"
    assert detail.npu.unmatched_detail == "shapes differ"
    assert (detail.npu.candidate_index, detail.npu.candidate_name) == (4, "Torch.softmax.0.forward")
    assert not node(ask, index=5).npu.HasField("candidate_index")


def test_recomputed_nodes_are_marked(ask: Ask) -> None:
    assert [node(ask, index=index).npu.is_recompute for index in (1, 2)] == [False, True]


def test_frames_of_packages_and_of_python_are_told_from_the_users_own(ask: Ask) -> None:
    stack = node(ask, index=3).npu.stack
    assert [(frame.file, frame.line, frame.is_library) for frame in stack] == [
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/functional.py", 1234, True),
        ("/home/me/train.py", 7, False),
        ("/usr/lib/python3.11/threading.py", 12, True),
        ("<frozen runpy>", 9, True),
    ]
    assert (stack[1].function, stack[1].source) == ("forward", "y = self.fc(x)")
    [unknown] = node(ask, index=3).bench.stack
    assert (unknown.file, unknown.source, unknown.is_library) == (
        *("", "something else entirely", False),
    )


def test_parameters_are_paired_by_comparison_then_by_name(ask: Ask) -> None:
    rows = node(ask, index=3).rows
    shown = [
        (row.npu.name, row.bench.name, row.HasField("comparison"))
        for row in rows
    ]  # fmt: skip
    assert shown == [
        ("input.0", "input.0", True),
        ("input.1", "input.1", True),
        ("input.bias", "input.bias", False),
        ("", "input.extra", False),
        ("output.0", "output.0", True),
    ]
    assert not rows[3].HasField("npu")


def test_numbers_keep_nan_infinity_and_absence_apart(ask: Ask) -> None:
    first, second, argument, _, output = node(ask, index=3).rows
    assert (first.npu.max, first.npu.min, first.npu.mean, first.npu.norm) == (1.5, -1.5, 0.25, 2.5)
    assert (second.npu.min, second.npu.norm) == (-inf, inf)
    assert isnan(second.npu.mean)
    assert isnan(output.npu.max)
    assert isnan(output.npu.mean)
    assert not output.npu.HasField("min")
    assert output.npu.overflows
    assert output.npu.requires_grad
    assert not output.bench.overflows
    assert output.bench.HasField("requires_grad")
    assert not output.bench.requires_grad
    assert not argument.npu.HasField("value")
    assert (argument.npu.type, argument.bench.type, argument.bench.value) == (
        "None",
        "bool",
        "True",
    )


def test_metrics_keep_nan_and_absence_apart(ask: Ask) -> None:
    first, second, _, _, output = (row.comparison for row in node(ask, index=3).rows)
    assert (first.max_diff, first.norm_diff, first.max_relative_err) == (0.5, 0.5, 0.5)
    assert not first.HasField("cosine")
    assert not first.HasField("error")
    assert isnan(second.norm_diff)
    assert isnan(output.max_diff)
    assert isnan(output.norm_diff)
    assert output.cosine == 0.99  # a number wins over its flag
    assert (output.error, output.note) == (1.0, "shapes differ")
    assert not output.HasField("md5_equal")


def test_rows_follow_the_order_in_which_a_module_computes(ask: Ask) -> None:
    rows = node(ask, index=2).rows
    assert [row.npu.name for row in rows] == [
        *("input.0", "parameters.weight", "output.0", "parameters_grad.weight"),
    ]
    assert not any(row.HasField("bench") for row in rows)


parameters = st.lists(
    st.builds(
        Parameter,
        ordinal=st.integers(0, 30),
        section=st.integers(0, 3),
        name=st.sampled_from(["a", "b", "c"]),
        type=st.just("torch.Tensor"),
    ),
    unique_by=lambda parameter: parameter.ordinal,
)
comparisons = st.lists(
    st.builds(
        Comparison,
        npu_ordinal=st.integers(0, 30),
        bench_ordinal=st.integers(0, 30),
        metrics=st.just(()),
        md5_equal=st.none(),
        requires_grad_equal=st.none(),
        error=st.none(),
        note=st.just(""),
    )
)


@given(parameters, parameters, comparisons)
def test_every_parameter_is_shown_exactly_once(
    npu: list[Parameter], bench: list[Parameter], compared: list[Comparison]
) -> None:
    rows = pair_parameters(npu, bench, compared)
    assert sorted(row.npu.ordinal for row in rows if row.npu) == sorted(
        parameter.ordinal for parameter in npu
    )
    assert sorted(row.bench.ordinal for row in rows if row.bench) == sorted(
        parameter.ordinal for parameter in bench
    )
    for row in rows:
        if row.npu and row.bench and not row.comparison:
            assert (row.npu.section, row.npu.name) == (row.bench.section, row.bench.name)
    alone = [row for row in rows if not (row.npu and row.bench)]
    left = {(row.npu.section, row.npu.name) for row in alone if row.npu}
    assert not left & {(row.bench.section, row.bench.name) for row in alone if row.bench}


@given(parameters, st.sets(st.integers(0, 30)))
def test_equal_sides_pair_place_by_place_in_the_order_of_computing(
    listed: list[Parameter], compared: set[int]
) -> None:
    found = {place: Comparison(place, place, (), None, None, None, "") for place in compared}
    named = sorted(one._replace(name=f"{one.name}.{one.ordinal}") for one in listed)
    order = [Section.INPUT, Section.PARAMETERS, Section.OUTPUT, Section.PARAMETERS_GRAD]
    expected = sorted(named, key=lambda one: (order.index(Section(one.section)), one.ordinal))
    assert pair_parameters(named, list(named), [found[place] for place in sorted(compared)]) == [
        (one, one, found.get(one.ordinal)) for one in expected
    ]
