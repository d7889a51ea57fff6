"""Whatever stands in a dump, a build ends with a sound database or one sentence."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from msprobe_builder import BuildConfig, BuildError, BuildOptions, build
from msprobe_builder.merge.ranks.layout import parse_layout
from msprobe_builder.pipeline.build import BuildResult
from tests.builder.integrity import check, check_names, is_one_sentence, read_json
from tests.builder.small_dumps import forward, tensor
from tests.cases import costly_examples

FILES = ("dump", "construct", "stack")
OPTIONS = BuildOptions(overflow_check=True)

odd_names = st.sampled_from(
    [
        "",
        ".",
        "...forward.0",
        "Apis_Between_Modules.0",
        "DefaultModel",
        "Distributed.send.0.forward",
        "Functional.linear.0.backward",
        "Functional.linear.0.forward",
        "Module..forward.0",
        "Module.a.A.backward.0",
        "Module.a.A.forward.0",
        "Module.a.A.forward.99999999999999999999",
        "Module.a.A.parameters_grad",
        "Module.a.b.B.backward.0",
        "Module.a.b.B.forward.0",
        "Module.a.b.B.parameters_grad.3",
        "Torch.'\"\n\0<script>.0.forward",
        "Torch.\ud800.0.forward",
        "Torch.空.0.forward",
        "optimizer",
    ]
)
names = odd_names | st.text(max_size=8)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**30, -(10**30), 2**63, 10**400])
    | st.floats()
    | st.text(max_size=6)
)
keys = names | st.sampled_from(
    "type value dtype shape Max Min Mean Norm md5 requires_grad data_name group_ranks group_id"
    " class_type tensor op peer tag".split()
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)
sections = st.sampled_from(
    ["input_args", "input_kwargs", "input", "output", "parameters", "is_recompute", "other"]
)
records = (
    st.dictionaries(sections, anything, max_size=4)
    | anything
    | st.just(forward([tensor()], [tensor()]))
)
parents = names | st.none() | st.tuples(names | st.none(), st.integers(-1, 3)).map(list) | anything


@st.composite
def arbitrary_dumps(draw: st.DrawFn) -> dict[str, Any]:
    construct = draw(st.dictionaries(names, parents, max_size=8) | anything)
    if isinstance(construct, dict) and draw(st.booleans()):
        steps = draw(st.integers(-1, 4) | anything)
        construct = {"megatron_micro_step_number": steps, **construct}
    dump = draw(st.dictionaries(keys, anything, max_size=2) | anything)
    if isinstance(dump, dict):
        dump["task"] = draw(st.sampled_from(["statistics", "structure", "tensor"]) | anything)
        dump["data"] = draw(st.dictionaries(names, records, max_size=8) | anything)
    stack = draw(st.dictionaries(keys, anything, max_size=4) | anything)
    return {"dump": dump, "construct": construct, "stack": stack}


def build_or_sentence(config: BuildConfig, output: Path) -> BuildResult | None:
    """The result, which lies alone in ``output``; without one, nothing does."""
    problem = None
    try:
        result = build(config, output, name="any.vis.db", workers=1)
    except BuildError as error:
        problem = str(error)
    if problem is None:
        assert list(output.iterdir()) == [result.path]
        return result
    assert is_one_sentence(problem), problem
    assert "unexpected" not in problem, problem
    assert not output.exists() or list(output.iterdir()) == []
    return None


def ends_well(folder: Path, npu: Path, bench: Path | None, contents: dict[Path, Any]) -> None:
    """Build, and check the database against what was in the dumps; nothing else may be left."""
    result = build_or_sentence(BuildConfig(npu, bench, options=OPTIONS), folder / "out")
    if result is None:
        return
    connection = check(result.path)
    try:
        for side, directory in (("npu", npu), ("bench", bench)):
            if directory is not None:
                content = contents[directory]
                check_names(connection, side, content["construct"], content["dump"]["data"])
    finally:
        connection.close()


def write(directory: Path, content: dict[str, Any]) -> Path:
    directory.mkdir(parents=True)
    for name in FILES:
        (directory / f"{name}.json").write_text(json.dumps(content[name]), encoding="utf-8")
    return directory


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(npu=arbitrary_dumps(), bench=st.none() | arbitrary_dumps())
def test_arbitrary_content(
    tmp_path_factory: pytest.TempPathFactory, npu: dict[str, Any], bench: dict[str, Any] | None
) -> None:
    folder = tmp_path_factory.mktemp("any")
    left = write(folder / "npu", npu)
    right = None if bench is None else write(folder / "bench", bench)
    ends_well(folder, left, right, {left: npu} | ({} if right is None else {right: bench}))
    shutil.rmtree(folder)


def containers(value: Any) -> list[Any]:
    """Every list and object below ``value`` that has something in it."""
    found = []
    pending = [value]
    while pending:
        item = pending.pop()
        inner = item.values() if isinstance(item, dict) else item
        if isinstance(item, dict | list) and item:
            found.append(item)
            pending += inner
    return found


def mutate(content: dict[str, Any], draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
    """Replace, remove or rename something anywhere in one of the files."""
    places = containers(content[draw(st.sampled_from(FILES))])
    if not places:
        return
    place = places[draw(st.integers(0, len(places) - 1))]
    all_keys = list(place) if isinstance(place, dict) else range(len(place))
    key = all_keys[draw(st.integers(0, len(place) - 1))]
    match draw(st.sampled_from(["replace", "remove", "rename"])):
        case "replace":
            place[key] = draw(anything)
        case "remove":
            del place[key]
        case "rename" if isinstance(place, dict):
            place[draw(keys)] = place.pop(key)


@pytest.fixture(scope="module")
def originals(dumps: Path) -> list[dict[str, Any]]:
    """Small real dumps: communication, and modules with gradients and micro-steps."""
    places = [dumps / "collectives4_statistics/step0/rank0"]
    contents = [{name: read_json(place / f"{name}.json") for name in FILES} for place in places]
    resnet = {
        name: read_json(dumps / "resnet_statistics/step0/rank" / f"{name}.json") for name in FILES
    }
    kept = [name for name in resnet["construct"] if ".classifier." in name or "pooler" in name]
    data = resnet["dump"]["data"]
    resnet["construct"] = {name: resnet["construct"][name] for name in kept}
    resnet["dump"]["data"] = {name: data[name] for name in data if "classifier" in name}
    return [*contents, resnet]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_real_dump_with_changes_anywhere(
    tmp_path_factory: pytest.TempPathFactory,
    originals: list[dict[str, Any]],
    data: st.DataObject,
) -> None:
    folder = tmp_path_factory.mktemp("changed")
    original = originals[data.draw(st.integers(0, len(originals) - 1))]
    changed = copy.deepcopy(original)
    for _ in range(data.draw(st.integers(1, 5))):
        mutate(changed, data.draw)
    npu, bench = write(folder / "npu", changed), write(folder / "bench", original)
    ends_well(folder, npu, bench, {npu: changed, bench: original})
    shutil.rmtree(folder)


@given(data=st.data())
def test_a_file_with_damaged_text(
    tmp_path_factory: pytest.TempPathFactory,
    originals: list[dict[str, Any]],
    data: st.DataObject,
) -> None:
    """Cut off, overwritten, or with something put in: any byte may be wrong."""
    folder = tmp_path_factory.mktemp("damaged")
    npu = write(folder / "npu", originals[data.draw(st.integers(0, len(originals) - 1))])
    file = npu / f"{data.draw(st.sampled_from(FILES))}.json"
    text = file.read_bytes()
    at = data.draw(st.integers(0, len(text)))
    end = at + data.draw(st.integers(0, 20))
    rest = data.draw(st.sampled_from([b"", text[end:]]))
    file.write_bytes(text[:at] + data.draw(st.binary(max_size=4)) + rest)
    result = build_or_sentence(BuildConfig(npu), folder / "out")
    if result is not None:
        check(result.path).close()
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def layer(dumps: Path) -> dict[str, Any]:
    """One layer of a language model with its loss, forward and backward."""
    place = dumps / "llama_statistics/step0/rank"
    content = {name: read_json(place / f"{name}.json") for name in FILES}
    construct, data = content["construct"], content["dump"]["data"]
    kept = [name for name in construct if "layers.0" in str(construct[name]) or name in data]
    content["construct"] = {name: construct[name] for name in kept[:250] + kept[-100:]}
    content["dump"]["data"] = {
        name: record for name, record in data.items() if name in content["construct"]
    }
    return content


@st.composite
def parts(draw: st.DrawFn) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A way of leaving things out: most calls or few, whole sections, all tensors."""
    share = draw(st.sampled_from([0.0, 0.02, 0.5, 0.95, 1.0]))
    sections = draw(st.sets(st.sampled_from(["input_args", "input_kwargs", "output", "input"])))
    tensors = draw(st.sampled_from(["kept", "kept", "numbers", "null"]))
    # Draws for each call would be more than an example may have.
    random = Random(draw(st.integers(0, 2**32)))  # noqa: S311

    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(item) for item in value]
        if isinstance(value, dict) and value.get("type") == "torch.Tensor":
            return {"kept": value, "numbers": {"type": "int", "value": 1}, "null": None}[tensors]
        if isinstance(value, dict):
            return {key: bare(item) for key, item in value.items()}
        return value

    def leave_out(content: dict[str, Any]) -> dict[str, Any]:
        data = {
            name: bare({key: record[key] for key in record if key not in sections})
            for name, record in content["dump"]["data"].items()
            if random.random() < share
        }
        return {**content, "dump": {**content["dump"], "data": data}}

    return leave_out


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=costly_examples(10, 50))
@given(npu=parts(), bench=parts())
def test_parts_of_a_real_dump_compare(
    tmp_path_factory: pytest.TempPathFactory,
    layer: dict[str, Any],
    npu: Callable[[dict[str, Any]], dict[str, Any]],
    bench: Callable[[dict[str, Any]], dict[str, Any]],
) -> None:
    """A side without calls, without tensors or without their outputs is as good as any."""
    folder = tmp_path_factory.mktemp("parts")
    left, right = npu(layer), bench(layer)
    paths = write(folder / "npu", left), write(folder / "bench", right)
    ends_well(folder, *paths, {paths[0]: left, paths[1]: right})
    shutil.rmtree(folder)


ONE, TWO = ({"rank_size": size, "tp": size, "pp": 1} for size in (1, 2))
# Checksums, modules alone, no numbers at all, other names, ranks that are merged into one model.
PAIRS = [
    ("llama_md5", "llama_md5_wrong_attention_scale", None),
    ("llama_statistics_L0", "llama_statistics", None),
    ("llama_structure", "llama_statistics", None),
    ("llama_statistics_renamed_all", "llama_statistics_bf16", None),
    ("ddp2_statistics", "ddp2_statistics", None),
    ("megatron_tp2pp1", "megatron_tp1pp1", (TWO, ONE)),
    ("megatron_tp2pp1_L0", "megatron_tp1pp1_L0", (TWO, ONE)),
]


@pytest.mark.parametrize(("own", "other", "layouts"), PAIRS, ids=[one for one, _, _ in PAIRS])
@settings(
    suppress_health_check=list(HealthCheck), max_examples=costly_examples(2, 5), deadline=None
)
@given(npu=parts(), bench=parts(), noise=st.none() | parts())
def test_parts_of_any_kind_of_dump_compare(
    tmp_path_factory: pytest.TempPathFactory,
    dumps: Path,
    own: str,
    other: str,
    layouts: tuple[dict[str, int], dict[str, int]] | None,
    npu: Callable[[dict[str, Any]], dict[str, Any]],
    bench: Callable[[dict[str, Any]], dict[str, Any]],
    noise: Callable[[dict[str, Any]], dict[str, Any]] | None,
) -> None:
    folder = tmp_path_factory.mktemp("kinds")
    paths = {}
    for side, name, leave_out in (("npu", own, npu), ("bench", other, bench), ("n", other, noise)):
        if leave_out is None:
            continue
        paths[side] = folder / side
        for place in sorted((dumps / name / "step0").iterdir()):
            content = {file: read_json(place / f"{file}.json") for file in FILES}
            write(paths[side] / place.name, leave_out(content))
    config = BuildConfig(paths["npu"], paths["bench"], noise_path=paths.get("n"))
    if layouts is not None:
        left, right = (parse_layout(one, "any") for one in layouts)
        config = replace(config, npu_layout=left, bench_layout=right)
    result = build_or_sentence(config, folder / "out")
    if result is not None:
        check(result.path).close()
    shutil.rmtree(folder)
