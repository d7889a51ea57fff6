"""Files that name operators: what is never called, and calls that end their process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe_builder.base.errors import BuildError
from msprobe_builder.facts.fact import Fact
from msprobe_builder.files.problems import FileError
from msprobe_operators import compare_for_single_op
from msprobe_operators.call.allowed import why_not_called
from msprobe_operators.call.apart import TIME_IS_UP, Bounds, each_apart, run_apart
from msprobe_operators.call.saved import SavedCallError, load_call, save_call
from msprobe_operators.command import main
from msprobe_operators.dump.calls import RecordedCall, function_of
from msprobe_operators.dump.check import CheckOptions
from msprobe_operators.dump.operands import Source
from msprobe_operators.dump.run import check_dump
from tests.operators.models import MODELS, train


def dump_of(folder: Path, name: str, arguments: list[Any]) -> Path:
    leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": 0.0}
    record = {"input_args": arguments, "input_kwargs": {}, "output": [leaf]}
    content = {"task": "statistics", "level": "mix", "data": {f"{name}.forward": record}}
    folder.mkdir()
    (folder / "dump.json").write_text(json.dumps(content), "utf-8")
    return folder


def text(value: str) -> dict[str, Any]:
    return {"type": "str", "value": value}


def number(value: Any) -> dict[str, Any]:
    return {"type": type(value).__name__, "value": value}


TENSOR = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.0, "Min": 0.0}


@pytest.mark.parametrize(
    "argument",
    [
        {"type": "torch.memory_format", "format": "load"},
        {"type": "torch.memory_format", "format": []},
        {"type": "torch.dtype", "value": []},
        {"type": "torch.dtype", "value": {}},
        {"type": "slice", "value": [1, "x", []]},
        {"type": "torch.Size", "value": [10**400]},
        {"type": "complex", "value": "no number"},
        {"type": ["torch.Tensor"], "shape": [2]},
    ],
)
def test_odd_arguments_are_said_by_every_command(
    argument: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = dump_of(tmp_path / "dump", "Torch.clone.0", [TENSOR, argument])
    out = str(tmp_path / "out")
    script = ["script", str(dump), "--call", "Torch.clone.0", "-o", f"{out}/x.py"]
    for command in (["check", str(dump), "-o", out], ["perturb", str(dump)], script):
        assert main(command) in (0, 1)
        said = capsys.readouterr()
        assert said.err.count("\n") <= 1
        assert "load at 0x" not in said.out


@pytest.mark.parametrize("command", ["check", "perturb"])
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("Aten.from_file.0", [text("made"), number(True), number(4096)]),
        ("Torch.from_file.0", [text("made"), number(True), number(4096)]),
        ("Aten.from_file.out.0", [text("made"), number(True), number(4096)]),
        ("Aten._reshape_alias.0", [TENSOR, [number(1 << 20)], [number(1)]]),
        ("Aten._nested_view_from_buffer.0", [TENSOR, TENSOR, TENSOR, TENSOR]),
        ("Aten.resize_.0", [TENSOR, [number(1 << 20)]]),
        ("Tensor.set_.0", [TENSOR, TENSOR]),
        ("Aten._sparse_coo_tensor_unsafe.0", [TENSOR, TENSOR]),
        ("Aten.fbgemm_linear_fp16_weight.0", [TENSOR, TENSOR, TENSOR]),
        ("Torch.fbgemm_linear_fp16_weight.0", [TENSOR, TENSOR, TENSOR]),
        ("Aten._print.0", [text("said")]),
    ],
)
def test_a_dump_has_nothing_called_that_reaches_beyond_its_operands(
    name: str,
    arguments: list[Any],
    command: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = dump_of(tmp_path / "dump", name, arguments)
    main([command, str(folder), "-o", "out"])
    assert "1 not tested" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} <= {"dump", "out"}


# Other ways to write what may not be called: by modules, by classes, by what reaches elsewhere.
NAMES = """
    Torch.os.system Torch.sys.exit Torch.eval Torch.builtins.exec Torch.__import__ Torch.load
    Torch.save Torch.hub.load Torch.ops.aten.from_file Torch.classes.load_library Torch.fork
    Torch.import_ir_module Torch._import_dotted_name Torch.set_num_threads Torch.manual_seed
    Torch.Tensor Torch.UntypedStorage Torch._C Torch.compile Torch.vmap Torch.\u0430dd
    Functional.importlib.import_module Functional.warnings.warn Functional.handle_torch_function
    Tensor.tofile Tensor.share_memory_ Tensor.map_ Tensor.apply_ Tensor.data_ptr Tensor.set_
    Tensor.untyped_storage Tensor.__setstate__ Tensor.__reduce_ex__ Tensor.__class__
    Tensor.resize_as_ Tensor.resize_as_sparse_ Tensor._coalesced_ Tensor.storage_type
    Tensor.from_file Tensor.register_hook Tensor.__dlpack__ Tensor.backward Tensor.pin_memory
    Aten.save Aten.warn Aten.open Aten.__class__ Aten._dir Aten.manual_seed Aten.set_data
    Aten.set_.source_Storage_storage_offset Aten.from_file.default Aten.from_file.out.from_file
    NPU.from_file VF.load Prims.as_strided Inductor._reinterpret_tensor Jit.load aten.from_file
    Mint.load Mint.save MintFunctional.os Primitive.a.Print Primitive.os.system
    Functional.tensor_dump Distributed.init_process_group Distributed.broadcast
""".split()


def test_other_spellings_are_not_called_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = [text("made"), number(True), number(4096)]
    folder = dump_of(tmp_path / "dump", "Aten.from_file.0", arguments)
    content = json.loads((folder / "dump.json").read_text())
    [record] = content["data"].values()
    content["data"] = {f"{name}.0.forward": record for name in NAMES}
    (folder / "dump.json").write_text(json.dumps(content), "utf-8")
    for command in ("check", "perturb"):
        main([command, "dump", "-o", "out"])
        assert f"{len(NAMES)} not tested" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} <= {"dump", "out"}
    for name in NAMES:
        assert isinstance(function_of(RecordedCall(f"{name}.0", {}, None)), Fact), name


@pytest.mark.parametrize("more", [[], ["--script", "script.py"]])
@pytest.mark.parametrize(
    ("operator", "args"),
    [
        (torch.ops.aten.from_file.default, ("mine", True, 100_000)),
        (torch.ops.aten._reshape_alias.default, (torch.ones(4), [1 << 28], [1])),
        (torch.ops.aten.resize_.default, (torch.ones(4), [1 << 20])),
        (torch.ops.aten._assert_async.msg, (torch.ones(1), "said")),
        (torch.ops.prims.as_strided.default, (torch.ones(4), [2], [1], 0)),
        (torch.ops.profiler._record_function_enter.default, ("said",)),
    ],
)
def test_a_saved_call_of_such_an_operator_is_refused_with_a_script_of_it(
    operator: OpOverload,
    args: tuple[Any, ...],
    more: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine").write_text("short")
    save_call(Path("call.pkl"), operator, args, {})
    assert main(["replay", "call.pkl", *more]) == 1
    said = capsys.readouterr().err
    assert "is not among the operators that files may name; compare_for_single_op(file" in said
    assert Path("mine").read_text() == "short"
    assert not Path("script.py").exists()


def test_who_names_an_operator_in_python_may_call_it(tmp_path: Path) -> None:
    file = tmp_path / "call.pkl"
    save_call(file, torch.ops.prims.sin.default, (torch.ones(4),), {})
    with pytest.raises(SavedCallError, match=r"prims\.sin is not among"):
        compare_for_single_op(file)
    assert compare_for_single_op(file, torch.ops.prims.sin.default)[3].shape == (4,)


def test_every_operator_of_training_may_be_named() -> None:
    found: set[OpOverload] = set()

    class Seen(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            found.add(func)
            return func(*args, **(kwargs or {}))

    for name in MODELS:
        with Seen():
            train(name)
    refused = {str(one) for one in found if one.namespace == "aten" and why_not_called(one)}
    assert len(found) > 60
    assert not refused


def test_no_operator_of_the_list_takes_a_path_or_raw_memory() -> None:
    allowed = set()
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, name = full.partition("::")
        packet, _, overload = name.partition(".")
        try:
            operator = getattr(
                getattr(getattr(torch.ops, namespace), packet), overload or "default"
            )
        except AttributeError:
            continue
        if why_not_called(operator) is None:
            allowed.add(packet)
            assert namespace == "aten"
            types = {str(argument.type) for argument in operator._schema.arguments}
            assert not [one for one in types if "Storage" in one or "__torch__" in one], full
    assert len(allowed) > 500
    unsafe = "from_file set_ set_data resize_ resize_as_ _resize_output_ _reshape_alias _print"
    assert not allowed & set(unsafe.split())
    assert isinstance(function_of(RecordedCall("Aten.save.0", {}, None)), Fact)


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"tuple": 5},
        lambda: {"dict": [1, 2]},
        lambda: {"enum": [1]},
        lambda: {"other": 1},
        lambda: {5: 6, 7: 8},
        lambda: doubled(40),
        lambda: holding_itself(),
        lambda: nested(100),
    ],
)
def test_containers_of_any_shape_end_in_a_sentence(make: Callable[[], Any], tmp_path: Path) -> None:
    file = tmp_path / "call.pkl"
    save_call(file, torch.ops.aten.neg.default, (torch.ones(1),), {})
    content = torch.load(file, weights_only=True)
    torch.save(content | {"args": [make()]}, file)
    begun = time.monotonic()
    with pytest.raises(SavedCallError, match=r"call\.pkl holds"):
        load_call(file)
    assert time.monotonic() - begun < 10


def doubled(times: int) -> list[Any]:
    value: list[Any] = [1]
    for _ in range(times):
        value = [value, value]
    return value


def holding_itself() -> list[Any]:
    value: list[Any] = []
    value.append(value)
    return value


def nested(times: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(times):
        value = [value]
    return value


class UnpicklableError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def work(item: str, _: str) -> str:
    if item == "crash":
        os.kill(os.getpid(), signal.SIGSEGV)
    if item == "leave":
        os._exit(3)
    if item == "loop":
        while True:
            pass
    if item == "memory":
        return str(torch.empty(1 << 32, dtype=torch.uint8).fill_(1).numel())
    if item == "file":
        raise FileError("damaged", "It is damaged.", "Copy it.")
    if item == "unpicklable":
        raise UnpicklableError(1, 2)
    if item == "write":
        Path("written").write_text("text")
    return item


@pytest.mark.parametrize(
    ("item", "code"),
    [
        ("crash", "operator.process_ended"),
        ("leave", "operator.process_ended"),
        ("loop", "operator.took_too_long"),
    ],
)
@pytest.mark.parametrize("processes", [1, 2])
def test_a_process_that_ends_costs_its_own_call_alone(item: str, code: str, processes: int) -> None:
    items = ["one", item, "two", "three"]
    bounds = Bounds(seconds=3)
    found = dict(each_apart(work, items, ["cpu"] * processes, bounds))
    lost = found.pop(item)
    assert isinstance(lost, Fact)
    assert lost.code == code
    assert found == {"one": "one", "two": "two", "three": "three"}


@pytest.mark.parametrize(
    ("item", "error"),
    # Where dask.distributed was loaded, tblib has taught pickle any error.
    [("file", BuildError), ("unpicklable", (RuntimeError, UnpicklableError))],
)
def test_errors_come_back_whatever_they_are_made_of(
    item: str, error: type[Exception] | tuple[type[Exception], ...]
) -> None:
    with pytest.raises(error, match=r"It is damaged\. Copy it\.|1 and 2"):
        run_apart(work, item, "cpu", Bounds())


@pytest.mark.parametrize(("item", "error"), [("memory", RuntimeError), ("write", OSError)])
def test_a_process_takes_no_more_memory_and_writes_no_file(
    item: str, error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error):
        run_apart(work, item, "cpu", Bounds(memory=1 << 30))
    assert not [path for path in tmp_path.iterdir() if path.stat().st_size]


def test_all_calls_together_have_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What nobody came to is said, not kept, and run by the next command."""
    bounds = Bounds(seconds=60, total=2)
    begun = time.monotonic()
    found = dict(each_apart(work, ["one", "loop", *map(str, range(1000))], ["cpu"], bounds))
    assert time.monotonic() - begun < 30
    assert found.pop("one") == "one"
    assert len(found) == 1001
    assert {one.code for one in found.values() if isinstance(one, Fact)} == {TIME_IS_UP}
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1, "Min": 0}
    record = {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}
    data = {f"Torch.neg.{number}.forward": record for number in range(3)}
    (tmp_path / "dump.json").write_text(json.dumps({"task": "statistics", "data": data}))
    check = ["check", str(tmp_path), "-o", str(tmp_path / "out")]
    journal = tmp_path / "out" / "journal.jsonl"
    rows = check_dump(
        tmp_path / "dump.json",
        CheckOptions(Source(None)),
        devices=["cpu"],
        journal=journal,
        bounds=Bounds(total=0),
    )
    assert [row.status for row in rows].count("not tested") >= 2
    assert len(journal.read_text().splitlines()) <= 2
    assert main(check) == 0
    said = capsys.readouterr().out
    assert said.startswith("3 passed; see ")
    assert len(journal.read_text().splitlines()) == 4
