"""Fused projections of a split model: in which blocks the parts are joined, by calls and sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from msprobe_builder.base.texts import Texts
from msprobe_builder.dump.parameters import Section
from msprobe_builder.dump.read import read_dump
from msprobe_builder.facts.wording import tell
from msprobe_builder.graph.assembly import PLAIN, Order
from msprobe_builder.graph.parameter_table import order_parameters
from msprobe_builder.graph.tree import build_tree
from msprobe_builder.merge.flow.dimensions import Cut
from msprobe_builder.merge.flow.share import REPLICA, Share, State
from msprobe_builder.merge.values.blocks import Orders, find_blocks, told_of_orders
from tests.builder.metrics.small_dump import Record, call, tensor, write_dump

MODEL = "Module.model.Model.forward.0"
MLP = "Module.model.mlp.MLP.forward.0"
UP = "Module.model.mlp.up.ColumnParallelLinear.forward.0"
DOWN = "Module.model.mlp.down.RowParallelLinear.forward.0"
SPLIT = "Torch.split.0.forward"
TWO = (Order((1, 1)),)
LAST = Cut(2)

Parents = dict[str, str | None]
Shape = tuple[int, ...]
Found = dict[tuple[str, Section], tuple[Order, ...]]


def of(shape: Shape, mark: int = 0) -> Record:
    """A tensor; those of one shape and mark are told to be the same."""
    return tensor(np.arange(np.prod(shape)).reshape(shape) + 1000 * mark)


def fused(width: int, inner: int, *, up: str = UP) -> tuple[dict[str, Record], Parents]:
    """A block of two linear layers: what the first puts out and the second takes in."""
    records = {
        up: call([of((2, 3, 7))], [of((2, 3, width))]),
        DOWN: call([of((2, 3, inner), 1)], [of((2, 3, 7), 2)]),
        MLP: call([of((2, 3, 7))], [of((2, 3, 7), 2)]),
        MODEL: call([of((2, 3, 7))], [of((2, 3, 7), 2)]),
    }
    return records, {up: MLP, DOWN: MLP, MLP: MODEL, MODEL: None}


def splits(parts: list[Shape], source: Shape, *, name: str = SPLIT, mark: int = 0) -> Any:
    """A block of width 12 whose first layer's output a call takes apart."""
    records, parents = fused(12, 5)
    records = {UP: records.pop(UP), name: call([of(source, mark)], list(map(of, parts))), **records}
    return records, {**parents, name: MLP}


def blocks_of(
    folder: Path, records: dict[str, Record], parents: Parents, cuts: dict[str, Any]
) -> Found:
    """What is found, by call and section; ``cuts`` gives the cut of all tensors of a section."""
    texts = Texts()
    dump = read_dump(write_dump(folder / "rank", records, parents=parents), texts)
    tree, _ = build_tree(dump)
    table = order_parameters(tree, dump.parameters)
    names = [tree.names[node] for node in table.node.tolist()]
    sections = [Section(one) for one in table.section.tolist()]
    states = [REPLICA] * len(table)
    for row, (name, section) in enumerate(zip(names, sections, strict=True)):
        cut = cuts.get(name, {}).get(section, REPLICA)
        states[row] = cut if isinstance(cut, State) else State(Share.SHARD, cut)
    found = find_blocks(tree, [table, table], states, texts)
    return {(names[row], sections[row]): orders for row, orders in found.items()}


def usual(*more: str, up: str = UP) -> dict[str, Any]:
    """The first layer's output and the second's input are cut, and all of ``more``."""
    every = {Section.INPUT: LAST, Section.OUTPUT: LAST}
    return {
        up: {Section.OUTPUT: LAST},
        DOWN: {Section.INPUT: LAST},
        **dict.fromkeys(more, every),
    }


def output_blocks(folder: Path, case: Any, cuts: dict[str, Any]) -> tuple[Order, ...]:
    """The blocks of the first layer's output; plain where none are found."""
    records, parents = case
    return blocks_of(folder, records, parents, cuts).get((UP, Section.OUTPUT), (PLAIN,))


@pytest.mark.parametrize(
    ("width", "inner", "orders"),
    [
        (8, 8, [(1,)]),  # nothing is left out: no gate
        (8, 9, [(1,)]),
        (9, 6, [(1,)]),  # 3 cannot be two equal parts more
        (10, 5, [(1, 1), (1,)]),  # twice as wide: a gate, or plain
        (8, 4, [(1, 1), (1,), (2, 1, 1)]),  # or queries of 4, keys and values of 2 each
        (12, 4, [(1,), (1, 1, 1)]),
        (12, 8, [(1,), (4, 1, 1)]),
    ],
)
def test_sizes_tell_what_is_possible(
    tmp_path: Path, width: int, inner: int, orders: list[tuple[int, ...]]
) -> None:
    expected = tuple(map(Order, orders))
    assert output_blocks(tmp_path, fused(width, inner), usual()) == expected


@pytest.mark.parametrize(
    ("name", "width", "inner", "orders"),
    [
        ("qkv.ColumnParallelLinear", 8, 4, [(2, 1, 1), (1, 1), (1,)]),
        ("qkv.QKVParallelLinear", 8, 4, [(2, 1, 1)]),
        ("QKV.QKVParallelLinear", 12, 4, [(1, 1, 1)]),
        ("gate_up.MergedColumnParallelLinear", 8, 4, [(1, 1)]),
        ("gate.Linear", 8, 4, [(1,)]),  # no layer that is split by columns
    ],
)
def test_names_and_classes_put_an_order_first(
    tmp_path: Path, name: str, width: int, inner: int, orders: list[tuple[int, ...]]
) -> None:
    up = f"Module.model.mlp.{name}.forward.0"
    found = blocks_of(tmp_path, *fused(width, inner, up=up), usual(up=up))
    assert found.get((up, Section.OUTPUT), (PLAIN,)) == tuple(map(Order, orders))


@pytest.mark.parametrize(
    ("parts", "source", "blocks"),
    [
        ([(2, 3, 6), (2, 3, 6)], (2, 3, 12), (1, 1)),
        ([(2, 3, 8), (2, 3, 2), (2, 3, 2)], (2, 3, 12), (4, 1, 1)),
        ([(2, 3, 4), (2, 3, 2)], (2, 3, 12), None),  # half of it is nowhere
        ([(2, 3, 12)], (2, 3, 12), None),  # one part is no split
        ([(2, 1, 12), (2, 2, 12)], (2, 3, 12), None),  # along the sequence
        ([(2, 3, 4), (2, 3, 4)], (2, 3, 2, 4), None),  # unbound from pairs of heads: two of four
        ([(2, 3, 4, 2), (2, 3, 4, 1)], (2, 3, 4, 3), (1,)),  # each head is split, the heads whole
        ([(2, 3, 1, 3), (2, 3, 3, 3)], (2, 3, 4, 3), (1, 3)),  # heads are split, each whole
        ([(3, 2, 6), (3, 2, 6)], (3, 2, 12), None),  # turned: no longer the layer's output
    ],
)
def test_calls_that_split_the_output_tell_its_blocks(
    tmp_path: Path, parts: list[Shape], source: Shape, blocks: tuple[int, ...] | None
) -> None:
    # (2, 3, 2, 4) has another number of elements than the output; the sizes 12 and 5 tell nothing.
    found = output_blocks(tmp_path, splits(parts, source), usual(SPLIT))
    assert found == ((Order(blocks) if blocks else PLAIN),)


def test_unbound_blocks_are_of_one_size(tmp_path: Path) -> None:
    case = splits([(2, 3, 4)] * 3, (2, 3, 3, 4), name="Tensor.unbind.0.forward")
    assert output_blocks(tmp_path, case, usual()) == (Order((1, 1, 1)),)


def test_a_split_before_the_block_says_nothing_of_it(tmp_path: Path) -> None:
    records, parents = fused(12, 5)
    records = {SPLIT: call([of((2, 3, 12))], [of((2, 3, 6))] * 2), **records}
    assert output_blocks(tmp_path, (records, {SPLIT: MODEL, **parents}), usual()) == (PLAIN,)


@pytest.mark.parametrize("name", ["Torch.relu.0.forward", "Torch.split.0.backward"])
def test_only_forward_splits_tell(tmp_path: Path, name: str) -> None:
    case = splits([(2, 3, 6), (2, 3, 6)], (2, 3, 12), name=name)
    assert output_blocks(tmp_path, case, usual()) == (PLAIN,)


def test_beside_a_layer_of_equal_width_only_what_is_the_output_itself_counts(
    tmp_path: Path,
) -> None:
    other = "Module.model.mlp.other.ColumnParallelLinear.forward.0"
    for mark, expected in ((5, PLAIN), (0, Order((1, 1)))):
        records, parents = splits([(2, 3, 6)] * 2, (2, 3, 12), mark=mark)
        records = {other: call([of((2, 3, 7))], [of((2, 3, 12), 9)]), **records}
        cuts = {**usual(), other: {Section.OUTPUT: LAST}}
        folder = tmp_path / str(mark)
        assert output_blocks(folder, (records, {**parents, other: MLP}), cuts) == (expected,)


def test_two_layers_of_columns_take_part_in_no_guess_by_size(tmp_path: Path) -> None:
    records, parents = fused(10, 5)
    other = "Module.model.mlp.other.ColumnParallelLinear.forward.0"
    records = {other: call([of((2, 3, 7))], [of((2, 3, 5), 9)]), **records}
    cuts = {**usual(), other: {Section.OUTPUT: LAST}}
    assert blocks_of(tmp_path, records, {**parents, other: MLP}, cuts) == {}


@pytest.mark.parametrize(
    "cut",
    [
        REPLICA,
        State(Share.PARTIAL),
        State(Share.SHARD, None),
        Cut(1),
        Cut(2, 4),  # flattened: the dimension holds other things before the parts
    ],
)
def test_an_output_that_is_not_cut_along_its_last_dimension(tmp_path: Path, cut: Any) -> None:
    cuts = {**usual(), UP: {Section.OUTPUT: cut}}
    assert output_blocks(tmp_path, fused(10, 5), cuts) == (PLAIN,)


def test_a_second_layer_that_takes_in_the_whole_tells_nothing(tmp_path: Path) -> None:
    cuts = {UP: {Section.OUTPUT: LAST}, DOWN: {Section.INPUT: REPLICA}}
    assert output_blocks(tmp_path, fused(10, 5), cuts) == (PLAIN,)


def test_blocks_hold_for_shards_of_that_size_and_no_others(tmp_path: Path) -> None:
    """Weights, what calls beside the layer take in, and the same tensor elsewhere."""
    records, parents = splits([(2, 3, 6), (2, 3, 6)], (2, 3, 12))
    beside, far = "Torch.silu.0.forward", "Torch.add.0.forward"
    records[beside] = call([of((2, 3, 12), 8)], [of((2, 12, 12), 7)])
    records[far] = call([of((2, 3, 12)), of((2, 3, 12), 8)], [of((2, 3, 12), 6)])
    parents |= {beside: MLP, far: MODEL}
    records[UP] = {
        **records[UP],
        "parameters": {
            "Module.model.mlp.up.ColumnParallelLinear.weight": of((12, 7), 3),
            "Module.model.mlp.up.ColumnParallelLinear.bias": of((12,), 3),
        },
    }
    every = {Section.INPUT: LAST, Section.OUTPUT: LAST, Section.PARAMETERS: Cut(0)}
    sliced = {Section.INPUT: LAST, Section.OUTPUT: Cut(1)}  # of a sequence, not of the layer
    cuts = {UP: every, SPLIT: every, far: every, beside: sliced}
    found = blocks_of(tmp_path, records, parents, cuts)
    assert found == {
        (UP, Section.OUTPUT): TWO,
        (UP, Section.PARAMETERS): TWO,
        (SPLIT, Section.INPUT): TWO,  # its outputs are of 6
        (beside, Section.INPUT): TWO,
        (far, Section.INPUT): TWO,  # the very tensors, further away
    }


def test_a_tensor_of_that_size_elsewhere_has_no_blocks(tmp_path: Path) -> None:
    records, parents = splits([(2, 3, 6), (2, 3, 6)], (2, 3, 12))
    far = "Torch.add.0.forward"
    records[far] = call([of((2, 3, 12), 8)], [of((2, 3, 12))])
    cuts = {**usual(), far: {Section.INPUT: LAST, Section.OUTPUT: REPLICA}}
    found = blocks_of(tmp_path, records, {**parents, far: MODEL}, cuts)
    assert found == {(UP, Section.OUTPUT): TWO}


def test_what_one_call_left_open_another_tells(tmp_path: Path) -> None:
    """A layer called twice, its output split after the second call alone, or after the first."""
    for number in (0, 1):
        records, parents = fused(10, 5)
        again = {name: name.replace(".forward.0", ".forward.1") for name in (UP, DOWN, MLP)}
        records |= {other: records[name] for name, other in again.items()}
        parents |= {again[UP]: again[MLP], again[DOWN]: again[MLP], again[MLP]: MODEL}
        records[SPLIT] = call([of((2, 3, 10))], [of((2, 3, 4)), of((2, 3, 6))])
        parents[SPLIT] = again[MLP] if number else MLP
        every = usual()
        cuts = every | {again[name]: own for name, own in every.items()}
        found = blocks_of(tmp_path / str(number), records, parents, cuts)
        assert found[UP, Section.OUTPUT] == found[again[UP], Section.OUTPUT] == (Order((2, 3)),)


def test_weights_worked_on_outside_the_model_have_the_blocks_of_their_shape(
    tmp_path: Path,
) -> None:
    records, parents = splits([(2, 3, 6), (2, 3, 6)], (2, 3, 12))
    name = "Module.model.mlp.up.ColumnParallelLinear.weight"
    records[UP] = {**records[UP], "parameters": {name: of((12, 7), 3)}}
    outside, inside, replica = (f"Torch.mul.{number}.forward" for number in range(3))
    records["Torch.neg.0.forward"] = call([of((12, 8), 20)], [])  # no weight has this shape
    parents["Torch.neg.0.forward"] = None
    for number, one in enumerate((outside, inside, replica)):
        records[one] = call([of((12, 7), 20 + number)], [])
        parents[one] = MODEL if one == inside else None
    cuts = {
        **usual(SPLIT),
        UP: {Section.OUTPUT: LAST, Section.PARAMETERS: Cut(0)},
        outside: {Section.INPUT: Cut(0)},
        inside: {Section.INPUT: Cut(0)},
        "Torch.neg.0.forward": {Section.INPUT: Cut(0)},
    }
    found = blocks_of(tmp_path, records, parents, cuts)
    assert found[outside, Section.INPUT] == TWO
    assert (inside, Section.INPUT) not in found
    assert (replica, Section.INPUT) not in found
    assert ("Torch.neg.0.forward", Section.INPUT) not in found


def worded_orders(orders: Orders) -> str:
    told = told_of_orders(orders)
    assert told is not None
    return tell(told)


def test_recipes_word_the_order() -> None:
    assert told_of_orders(()) is told_of_orders((PLAIN,)) is None
    assert worded_orders((Order((2, 1)),)) == " block by block (2 : 1)"
    assert worded_orders((Order((1, 1)), PLAIN)) == " block by block (1 : 1) or one after the other"
    pieces = Order((1, 1), ((0, 0), (1, 1)))
    assert worded_orders((pieces,)) == " block by block (1 : 1, in the order 0.0 1.1)"
