"""The Python interface: its document, dumps in memory, and agreement with the command."""

from __future__ import annotations

import json
import re
import sqlite3
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, BuildError, InMemoryDump, build
from tests.builder.integrity import read_json
from tests.builder.small_dumps import forward, tensor

DOCUMENT = Path(__file__).parents[3] / "docs" / "python-api.md"
CONTENT = ("graph", "node", "tensor", "argument", "match", "comparison", "communication")


def load(directory: Path) -> InMemoryDump:
    dump, construct, stack = (
        read_json(directory / f"{name}.json") for name in ("dump", "construct", "stack")
    )
    return InMemoryDump(dump, construct, stack, name=str(directory))


def content(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    tables = {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in CONTENT}
    # What the files were is not known of a dump in memory.
    names = [row[1] for row in connection.execute("PRAGMA table_info(graph)")]
    inputs = names.index("inputs")
    tables["graph"] = [row[:inputs] + row[inputs + 1 :] for row in tables["graph"]]
    connection.close()
    return tables


def test_the_examples_of_the_document_run(
    dumps: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for place in dumps.iterdir():
        (tmp_path / place.name).symlink_to(place)
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.S)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, str(DOCUMENT), "exec"), {})  # noqa: S102
    said = capsys.readouterr().out
    assert "688 of 688 nodes matched" in said
    assert {path.name for path in Path("out").iterdir()} == {"attention.vis.db", "ranks.vis.db"}


def test_the_document_names_every_field_of_the_result(dumps: Path, tmp_path: Path) -> None:
    result = build(BuildConfig(dumps / "vit_statistics/step0/rank"), tmp_path)
    text = DOCUMENT.read_text(encoding="utf-8")
    for name in vars(result):
        assert f"`{name}`" in text
    for name in vars(result.diagnostics[0]) if result.diagnostics else ():
        assert f"`{name}`" in text


def test_memory_and_files_give_the_same_database(dumps: Path, tmp_path: Path) -> None:
    npu = dumps / "llama_statistics_wrong_attention_scale/step0/rank"
    bench = dumps / "llama_statistics/step0/rank"
    of_files = build(BuildConfig(npu, bench), tmp_path, name="files.vis.db")
    of_memory = build(BuildConfig(load(npu), load(bench)), tmp_path, name="memory.vis.db")
    assert content(of_memory.path) == content(of_files.path)
    mixed = build(BuildConfig(npu, load(bench)), tmp_path, name="mixed.vis.db")
    assert content(mixed.path) == content(of_files.path)


@pytest.mark.parametrize("workers", [1, 2])
def test_ranks_in_memory(dumps: Path, tmp_path: Path, workers: int) -> None:
    step = dumps / "collectives4_statistics/step0"
    ranks = {(0, rank): load(step / f"rank{rank}") for rank in range(4)}
    of_files = build(BuildConfig(step), tmp_path, name="files.vis.db", workers=1)
    of_memory = build(BuildConfig(ranks), tmp_path, name="memory.vis.db", workers=workers)
    assert content(of_memory.path) == content(of_files.path)


@pytest.mark.parametrize(
    ("dump", "construct", "sentence"),
    [
        ({"task": "statistics"}, {"a": None}, "no object 'data'"),
        ([], {"a": None}, "dump is no object"),
        ({"data": {}}, {"a": None}, "the key 'task' is missing"),
        ({"task": "statistics", "data": {}}, {}, "is empty"),
        ({"task": "statistics", "data": {}}, 3, "does not hold a JSON object"),
    ],
)
def test_unusable_content(tmp_path: Path, dump: object, construct: object, sentence: str) -> None:
    source = InMemoryDump(dump, construct, name="step 7")  # type: ignore[arg-type]
    with pytest.raises(BuildError, match=sentence) as caught:
        build(BuildConfig(source), tmp_path)
    assert "step 7" in str(caught.value)


def test_no_dump_at_all(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="npu_path holds no dump"):
        build(BuildConfig({}), tmp_path)


def test_in_memory_content_is_not_changed(tmp_path: Path) -> None:
    data = {"Torch.add.0.forward": forward([tensor()], [tensor()])}
    source = InMemoryDump({"task": "statistics", "data": data}, dict.fromkeys(data))
    before = json.dumps([source.dump, source.construct])
    build(BuildConfig(source, source), tmp_path)
    assert json.dumps([source.dump, source.construct]) == before
