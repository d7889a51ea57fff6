"""Who made each tensor: views, writes, names, empty memory, recomputation, processes, bad files."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from msprobe_builder.dump.flow_layout import Maker, Mark, Place
from msprobe_collector import PrecisionDebugger
from tests.collector.models import Decoder, loss_of, tokens
from tests.collector.processes import run_in_two
from tests.collector.recorded_flow import At, Made, Makers, flow_of
from tests.collector.recording import Dump, dumps_of_two, record, write_config

FLOW = {"flow": True}


def recorded(path: Path, step: Callable[[], object], model: Any = None, level: str = "L1") -> Dump:
    return record(path, step, model, level=level, statistics=FLOW)


def given(dump: Dump, call: str, position: int = 0) -> Makers:
    return flow_of(dump)[At(f"{call}.forward", Place.INPUT, position)]


def out(call: str, position: int = 0) -> Made:
    name = f"{call}.forward"
    return Made(Maker.RECORD, name, At(name, Place.OUTPUT, position))


def sent(call: str, position: int = 0, section: Place = Place.OUTPUT) -> Made:
    name = f"{call}.backward"
    return Made(Maker.RECORD, name, At(name, section, position))


# -- views and writes -----------------------------------------------------------------------------


def test_two_views_at_the_same_places_are_told_apart(tmp_path: Path) -> None:
    x = torch.randn(2, 6)

    def step() -> None:
        base = torch.relu(x)
        first, second = base.view(3, 4), base.view(3, 4)
        first.exp(), second.sin(), base.cos()

    dump = recorded(tmp_path, step)
    assert given(dump, "Tensor.exp.0").all == [out("Tensor.view.0")]
    assert given(dump, "Tensor.sin.0").all == [out("Tensor.view.1")]
    assert given(dump, "Tensor.cos.0").all == [out("Torch.relu.0")]


def test_what_a_call_hands_on_is_made_by_whoever_made_it(tmp_path: Path) -> None:
    def step() -> None:
        made = torch.relu(torch.ones(3))
        made.float().exp()
        made.sin()

    dump = recorded(tmp_path, step)
    for call in ("Tensor.exp.0", "Tensor.sin.0"):
        assert given(dump, call) == Makers(Mark(0), [out("Torch.relu.0")])
    handed_on = flow_of(dump)[At("Tensor.float.0.forward", Place.OUTPUT, 0)]
    assert handed_on == Makers(Mark.SAME, [out("Torch.relu.0")])


def test_a_write_is_seen_through_every_view_of_what_it_wrote(tmp_path: Path) -> None:
    def step() -> None:
        base = torch.relu(torch.ones(4, 6))
        left, right = base[:, :3], base[:, 3:]
        left.add_(1)
        left.exp(), right.sin(), base.cos()

    dump = recorded(tmp_path, step)
    assert given(dump, "Tensor.exp.0").all == [out("Tensor.add_.0")]
    assert given(dump, "Tensor.sin.0").all == [out("Tensor.__getitem__.1")]
    whole = given(dump, "Tensor.cos.0")
    assert whole.all == [out("Tensor.add_.0"), out("Torch.relu.0")]
    assert whole.marks == Mark.VIEW | Mark.IN_PLACE


def test_an_assignment_writes_the_part_that_its_index_takes(tmp_path: Path) -> None:
    def step() -> None:
        base = torch.relu(torch.ones(4, 6))
        base[1:3, ::2] = torch.full((2, 3), 7.0)
        base[0].exp(), base[2].sin(), base.cos()

    dump = recorded(tmp_path, step)
    write = Made(
        Maker.RECORD,
        "Tensor.__setitem__.0.forward",
        At("Tensor.__setitem__.0.forward", Place.INPUT, 0),
    )
    assert given(dump, "Tensor.__getitem__.0").all == [write, out("Torch.relu.0")]
    assert given(dump, "Tensor.cos.0").all == [write, out("Torch.relu.0")]


def test_an_argument_that_a_call_writes_to_is_its_work(tmp_path: Path) -> None:
    layer = nn.BatchNorm1d(3)
    x = torch.randn(5, 3)

    def step() -> None:
        layer(x)
        layer.running_mean.exp()  # type: ignore[union-attr]

    dump = recorded(tmp_path, step, layer, level="mix")
    made = given(dump, "Tensor.exp.0").first
    assert made.at == At("Functional.batch_norm.0.forward", Place.INPUT, 1)
    first = given(dump, "Functional.batch_norm.0", 1)
    assert first.all == [Made(Maker.BUFFER, "Module.running_mean")]


def test_a_write_that_nobody_recorded_has_no_maker(tmp_path: Path) -> None:
    def step() -> None:
        made = torch.relu(torch.ones(3))
        with torch._C.DisableTorchFunction():
            made.add_(1)
        made.exp()
        made.mul_(2)
        made.sin()

    dump = recorded(tmp_path, step)
    assert given(dump, "Tensor.exp.0").all == [Made(Maker.UNRECORDED)]
    assert given(dump, "Tensor.sin.0").all == [out("Tensor.mul_.0")]


def test_memory_that_is_used_again_has_a_new_maker(tmp_path: Path) -> None:
    addresses = []

    def step() -> None:
        for _ in range(50):
            made = torch.ones(64).exp()
            addresses.append(made.data_ptr())
            made.sin()

    dump = recorded(tmp_path, step)
    assert len(set(addresses)) < 50
    for number in range(50):
        assert given(dump, f"Tensor.sin.{number}").all == [out(f"Tensor.exp.{number}")]


# -- names, data, empty memory --------------------------------------------------------------------


def test_parameters_buffers_data_and_the_rest_are_told_apart(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3).eval())
    data = torch.randn(2, 3)
    with_graph = torch.ones(2, 3, requires_grad=True).exp()
    dump = recorded(tmp_path, lambda: net(data * with_graph), net, level="mix")
    assert given(dump, "Tensor.__mul__.0").all == [Made(Maker.OUTSIDE)]
    assert given(dump, "Tensor.__mul__.0", 1).all == [Made(Maker.UNRECORDED, "ExpBackward0")]
    assert given(dump, "Functional.linear.0", 1).all == [Made(Maker.PARAMETER, "Module.0.weight")]
    assert given(dump, "Functional.batch_norm.0", 2).all == [
        Made(Maker.BUFFER, "Module.1.running_var")
    ]


def test_memory_that_nobody_has_written_is_marked_with_what_comes_of_it(tmp_path: Path) -> None:
    def step() -> None:
        empty = torch.empty(2, 3)
        empty.exp().sin()
        torch.zeros_like(empty).cos()
        empty[0] = torch.ones(3)
        empty.tan()
        empty[1] = torch.ones(3)
        empty.neg()
        torch.empty(2).fill_(1).floor()
        target = torch.empty(3)
        torch.add(torch.ones(3), 1, out=target)
        target.log()

    dump = recorded(tmp_path, step)
    flow = flow_of(dump)
    assert given(dump, "Tensor.exp.0").marks == Mark.UNINITIALISED
    assert given(dump, "Tensor.sin.0").marks == Mark.FROM_UNINITIALISED
    assert Mark.UNINITIALISED in given(dump, "Tensor.tan.0").marks
    unwritten = Mark.UNINITIALISED | Mark.FROM_UNINITIALISED
    for call in ("cos", "neg", "floor", "log"):
        assert not given(dump, f"Tensor.{call}.0").marks & unwritten, call
    assert flow[At("Torch.empty.0.forward", Place.OUTPUT, 0)].marks == Mark.UNINITIALISED


# -- gradients ------------------------------------------------------------------------------------


def test_a_gradient_is_the_sum_of_what_every_use_sends(tmp_path: Path) -> None:
    x = torch.randn(3, requires_grad=True)

    def step() -> None:
        made = x.exp()
        (made.sin() + made.cos() * made).sum().backward()

    dump = recorded(tmp_path, step)
    makers = flow_of(dump)[At("Tensor.exp.0.backward", Place.INPUT, 0)]
    assert makers.marks == Mark.SUM
    assert set(makers.all) == {
        sent("Tensor.sin.0"),
        sent("Tensor.cos.0"),
        sent("Tensor.__mul__.0", 1),
    }


def test_what_a_hook_may_have_replaced_is_not_told_for_certain(tmp_path: Path) -> None:
    x = torch.randn(3, requires_grad=True)

    def step() -> None:
        made = x.exp()
        made.register_hook(lambda gradient: gradient * 2)
        made.sin().sum().backward()

    dump = recorded(tmp_path, step)
    assert Mark.INCOMPLETE in flow_of(dump)[At("Tensor.exp.0.backward", Place.INPUT, 0)].marks


def test_an_unrecorded_use_is_named_by_its_function(tmp_path: Path) -> None:
    x = torch.randn(3, requires_grad=True)

    def step() -> None:
        made = x.exp()
        with torch._C.DisableTorchFunction():
            other = made.tanh()
        (made + other).sum().backward()

    dump = recorded(tmp_path, step)
    makers = flow_of(dump)[At("Tensor.exp.0.backward", Place.INPUT, 0)]
    assert set(makers.all) == {
        sent("Tensor.__add__.0"),
        Made(Maker.UNRECORDED, "TanhBackward0"),
    }


def test_the_gradients_of_parameters_have_makers_and_are_known_by_name(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(3, 3))
    layer = net[0]
    x = torch.randn(2, 3)

    def step() -> None:
        layer(layer(x)).sum().backward()
        layer.weight.grad.exp()  # type: ignore[union-attr, operator]

    dump = recorded(tmp_path, step, net, level="mix")
    makers = flow_of(dump)[At("Module.0.Linear.parameters_grad", Place.PARAMETERS_GRAD, 0)]
    assert makers.marks == Mark.SUM
    assert {one.name for one in makers.all} == {
        "Functional.linear.0.backward",
        "Functional.linear.1.backward",
    }
    assert given(dump, "Tensor.exp.0").all == [Made(Maker.GRADIENT, "Module.0.weight")]


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputed_calls_and_gradients_through_them(reentrant: bool, tmp_path: Path) -> None:
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    net = nn.Sequential(first, second)
    x = torch.randn(2, 3, requires_grad=True)

    def step() -> None:
        made = first(x)
        checkpoint(
            lambda value: second(value).relu(), made, use_reentrant=reentrant
        ).sum().backward()

    dump = recorded(tmp_path, step, net, level="mix")
    again = [
        name
        for name, entry in dump.data.items()
        if name.startswith("Functional.linear.") and entry.get("is_recompute")
    ]
    assert again
    flow = flow_of(dump)
    for name in again:
        maker = "Tensor.detach.0" if reentrant else "Functional.linear.0"  # which it records
        assert flow[At(name, Place.INPUT, 0)].first == out(maker)
        relu = f"Tensor.relu.{len(again)}.forward"
        if relu in dump.data:
            assert flow[At(relu, Place.INPUT, 0)].first.name == name
    received = flow[At("Functional.linear.0.backward", Place.INPUT, 0)]
    assert Mark.SUM not in received.marks
    assert received.first.kind in (Maker.RECORD, Maker.UNRECORDED)


# -- the training ---------------------------------------------------------------------------------


def test_nothing_is_kept_alive(tmp_path: Path) -> None:
    config = write_config(tmp_path, level="L1", statistics=FLOW)
    debugger = PrecisionDebugger(config_path=config)
    debugger.start()
    gc.disable()
    try:
        tensor = torch.ones(3, requires_grad=True).exp()
        view = tensor.view(3, 1)
        gone = [weakref.ref(tensor), weakref.ref(view)]
        del tensor, view
        assert [one() for one in gone] == [None, None]
    finally:
        gc.enable()
        debugger.close()


def test_other_files_and_the_training_are_the_same_without_it(tmp_path: Path) -> None:
    results = []
    for section in ({}, FLOW):
        torch.manual_seed(3)
        net, data = Decoder(), tokens()
        path = tmp_path / str(len(section))

        def step(net: nn.Module = net, data: torch.Tensor = data) -> None:
            loss_of(net, data).backward()

        dump = record(path, step, net, statistics=section)
        files = [(dump.directory / name).read_bytes() for name in ("dump.json", "construct.json")]
        results.append((files, [parameter.grad for parameter in net.parameters()]))
    (files, gradients), (others, other_gradients) = results
    assert files == others
    assert all(torch.equal(a, b) for a, b in zip(gradients, other_gradients, strict=True))  # type: ignore[arg-type]


def in_processes(rank: int, path: str) -> None:
    torch.manual_seed(3)
    net = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)))
    x = torch.randn(2, 3) + rank

    def step() -> None:
        net(x).sum().backward()
        total = torch.ones(3).exp()
        parts = [torch.empty(3) for _ in range(2)]
        dist.all_gather(parts, total)
        dist.all_reduce(total)
        total.sin(), parts[1].cos()

    config = write_config(Path(path), statistics=FLOW)
    debugger = PrecisionDebugger(config_path=config)
    debugger.start(net)
    step()
    debugger.stop()
    debugger.close()


def test_each_process_tells_what_it_knows(tmp_path: Path) -> None:
    run_in_two(in_processes, str(tmp_path))
    for dump in dumps_of_two(tmp_path):
        flow = flow_of(dump)
        reduced = given(dump, "Tensor.sin.0")
        assert reduced.first.at == At("Distributed.all_reduce.0.forward", Place.OUTPUT, 0)
        gathered = given(dump, "Tensor.cos.0")
        assert gathered.first.at == At("Distributed.all_gather.0.forward", Place.OUTPUT, 1)
        assert not gathered.marks & (Mark.UNINITIALISED | Mark.FROM_UNINITIALISED)
        name = next(one for one in dump.data if one.endswith("1.Linear.parameters_grad"))
        gradient = flow[At(name, Place.PARAMETERS_GRAD, 0)]
        assert gradient.first.name == "Functional.linear.1.backward"
