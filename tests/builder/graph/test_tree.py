"""The rebuilt hierarchy: rules on hand-made dumps, invariants on random ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.read import read_dump
from msprobe_builder.graph.tree import Tree, build_tree

M, MB = "Module.fc.Linear.forward.0", "Module.fc.Linear.backward.0"


def _tree(folder: Path, construct: dict[str, Any], data: dict[str, Any] | None = None) -> Tree:
    (folder / "construct.json").write_text(json.dumps(construct))
    (folder / "stack.json").write_text("{}")
    (folder / "dump.json").write_text(json.dumps({"task": "statistics", "data": data or {}}))
    tree, _ = build_tree(read_dump(folder, Texts()))
    return tree


def _children(tree: Tree, name: str) -> list[str]:
    own = tree.names.index(name)
    return [tree.names[node] for node in range(len(tree)) if tree.parent[node] == own]


def test_collections_modules_and_gradients(tmp_path: Path) -> None:
    tree = _tree(
        tmp_path,
        {
            "Tensor.cpu.0.forward": None,
            "Torch.ones.0.forward": None,
            "Functional.linear.0.forward": M,
            M: None,
            "Torch.empty.0.forward": None,
            "Functional.linear.0.backward": MB,
            MB: None,
        },
        {"Module.fc.Linear.parameters_grad": {"weight": []}},
    )
    assert _children(tree, "DefaultModel") == [
        "Apis_Between_Modules.0",
        M,
        "Torch.empty.0.forward",
        MB,
    ]
    assert _children(tree, "Apis_Between_Modules.0") == [
        "Tensor.cpu.0.forward",
        "Torch.ones.0.forward",
    ]
    assert _children(tree, MB) == [
        "Functional.linear.0.backward",
        "Module.fc.Linear.parameters_grad",
    ]
    assert len(tree) == 10


def test_backward_without_parent_follows_its_forward_twin(tmp_path: Path) -> None:
    outer, outer_back = "Module.m.Net.forward.0", "Module.m.Net.backward.0"
    inner, inner_back = "Module.m.a.Relu.forward.0", "Module.m.a.Relu.backward.0"
    tree = _tree(tmp_path, {outer: None, inner: outer, outer_back: None, inner_back: None})
    assert _children(tree, outer_back) == [inner_back]


def test_in_place_module_does_not_swallow_its_sibling(tmp_path: Path) -> None:
    block, block_back = (
        "Module.layer4.1.BasicBlock.forward.0",
        "Module.layer4.1.BasicBlock.backward.0",
    )
    relu, conv = "Module.layer4.1.relu.ReLU.backward.1", "Module.layer4.1.conv2.Conv2d.backward.0"
    tree = _tree(
        tmp_path,
        {
            block: None,
            "Module.layer4.1.conv2.Conv2d.forward.0": block,
            block_back: None,
            relu: block_back,
            conv: relu,
        },
    )
    assert _children(tree, block_back) == [relu, conv]


def test_recomputed_forward_goes_below_the_backward_that_needed_it(tmp_path: Path) -> None:
    model, back = "Module.m.Net.forward.0", "Module.m.Net.backward.0"
    layer, again = "Module.m.layer.Block.forward.0", "Module.m.layer.Block.forward.1"
    again_back = "Module.m.layer.Block.backward.1"
    tree = _tree(
        tmp_path,
        {model: None, layer: model, back: None, again: None, again_back: None},
        {layer: {"is_recompute": False}, again: {"is_recompute": True}, again_back: {}},
    )
    assert _children(tree, back) == [again, again_back]
    assert tree.micro_steps == 1
    assert tree.is_recompute[tree.names.index(again)]


def test_rounds_of_forward_and_backward_are_micro_steps(tmp_path: Path) -> None:
    construct: dict[str, str | None] = {}
    for call in range(3):
        construct[f"Module.a.A.forward.{call}"] = None
        construct[f"Module.b.B.forward.{call}"] = None
        construct[f"Functional.loss.{call}.forward"] = None
        construct[f"Module.b.B.backward.{call}"] = None
        construct[f"Module.a.A.backward.{call}"] = None
    tree = _tree(tmp_path, construct)
    assert tree.micro_steps == 3
    for call in range(3):
        for name in (f"Module.a.A.forward.{call}", f"Functional.loss.{call}.forward"):
            assert tree.micro_step[tree.names.index(name)] == call


def test_a_backward_call_before_any_forward_call_begins_no_micro_step(tmp_path: Path) -> None:
    names = ["Module.a.A.backward.0", "Module.a.A.forward.0", "Module.a.A.backward.1"]
    tree = _tree(tmp_path, dict.fromkeys(names))
    assert tree.micro_steps == 1
    assert tree.micro_step.tolist() == [0, 0, 0, 0]
    tree = _tree(tmp_path, dict.fromkeys([*names, "Module.a.A.forward.1", "Module.a.A.backward.2"]))
    assert tree.micro_steps == 2
    assert tree.micro_step.tolist() == [0, 0, 0, 0, 1, 1]


def test_megatron_micro_steps_are_recorded_and_inherited(tmp_path: Path) -> None:
    tree = _tree(
        tmp_path,
        {
            "megatron_micro_step_number": 1,
            "Module.0.A.forward.0": [None, 0],
            "Module.0.A.backward.0": [None, 1],
            "Torch.x.0.backward": ["Module.0.A.backward.0", 1],
        },
        {"Module.0.A.parameters_grad": {}},
    )
    assert tree.micro_steps == 2
    by_name = dict(zip(tree.names, tree.micro_step.tolist(), strict=True))
    assert by_name["Module.0.A.forward.0"] == 0
    assert by_name["Module.0.A.parameters_grad"] == 1


def test_depth_is_not_limited(tmp_path: Path) -> None:
    names = [f"Module.m{'.x' * level}.Box.forward.0" for level in range(1500)]
    tree = _tree(tmp_path, dict(zip(names, [None, *names], strict=False)))
    assert int(tree.depth.max()) == 1500


_NAMES = [
    *(
        f"Module.{path}.Cls.{word}.{call}"
        for path in ("a", "a.b", "a.b.c", "d")
        for word in ("forward", "backward")
        for call in (0, 1)
    ),
    *(f"Torch.op.{call}.{word}" for call in range(4) for word in ("forward", "backward")),
    "optimizer",
    "odd",
    "DefaultModel",
]
_RECORDS = st.fixed_dictionaries({}, optional={"is_recompute": st.booleans()})


@given(
    construct=st.dictionaries(
        st.sampled_from(_NAMES),
        st.none() | st.sampled_from([*_NAMES, "Module.a.q.Lost.forward.0"]),
        min_size=1,
        max_size=20,
    ),
    data=st.dictionaries(
        st.sampled_from(
            [*_NAMES, "Module.a.b.Cls.parameters_grad", "Module.z.Cls.parameters_grad.1"]
        ),
        _RECORDS,
        max_size=12,
    ),
)
def test_any_hierarchy_becomes_a_tree(
    tmp_path_factory: pytest.TempPathFactory,
    construct: dict[str, str | None],
    data: dict[str, Any],
) -> None:
    """Cycles, orphans and strangers included: each call once, subtrees contiguous."""
    tree = _tree(tmp_path_factory.mktemp("dump"), construct, data)
    collections = [name for name in tree.names if name.startswith("Apis_Between_Modules")]
    named = (
        set(construct)
        | set(data)
        | {parent for child, parent in construct.items() if parent and child != "DefaultModel"}
    )
    assert sorted(tree.names) == sorted({"DefaultModel", *named, *collections})
    for node in range(1, len(tree)):
        parent = int(tree.parent[node])
        assert parent < node <= int(tree.subtree_end[node]) <= int(tree.subtree_end[parent])
        assert tree.depth[node] == tree.depth[parent] + 1
    for node in range(len(tree)):
        below = [other for other in range(len(tree)) if node in _path(tree, other)]
        assert below == list(range(node, int(tree.subtree_end[node]) + 1))
    # Siblings whose recorded parent was kept stay in the order of execution.
    position = {name: index for index, name in enumerate(construct)}
    for node, name in enumerate(tree.names):
        siblings = [position[child] for child in _children(tree, name) if child in position]
        if node and all(
            construct[child] == name for child in _children(tree, name) if child in construct
        ):
            assert siblings == sorted(siblings)


def _path(tree: Tree, node: int) -> list[int]:
    path = [node]
    while tree.parent[path[-1]] >= 0:
        path.append(int(tree.parent[path[-1]]))
    return path


@pytest.mark.parametrize(
    "dump",
    ["llama_statistics", "llama_statistics_L0", "llama_statistics_nan_weight", "resnet_statistics"],
)
def test_real_dumps_are_complete(dumps: Path, dump: str) -> None:
    folder = dumps / dump / "step0" / "rank"
    read = read_dump(folder, Texts())
    tree, diagnostics = build_tree(read)
    calls = set(read.construct.parent) | set(read.records)
    extra = set(tree.names) - calls - {"DefaultModel"}
    assert calls <= set(tree.names)
    assert all(name.startswith("Apis_Between_Modules.") for name in extra)
    assert [finding for finding in diagnostics if finding.severity != "info"] == []
