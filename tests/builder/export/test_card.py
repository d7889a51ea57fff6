"""The verdict as a card: each answer is where people look for it, and commands can be copied."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from msprobe_builder.command.main import main
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.verdict import read_verdict
from msprobe_builder.export.card import card_of, module_path, short_path, with_slices
from msprobe_builder.facts.fact import fact
from msprobe_builder.facts.wording import LANGUAGES, tell
from tests.conftest import BuildDatabase


def lines_of(database: Path, capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    capsys.readouterr()
    assert main(["verdict", str(database), *options]) == 0
    return capsys.readouterr().out.splitlines()


def test_the_card_of_a_wrong_argument(
    demo_database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = lines_of(demo_database, capsys)
    titles = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert titles[:5] == ["Verdict", "Where", "What", "Sure", "Follows"]
    place, code, what = lines[1:4]
    assert place.split(None, 1)[1] == "model.layers.1.self_attn → Tensor.__mul__.19.forward"
    assert code.split()[0] == "modeling_llama.py:193"
    assert code.endswith("* scaling")  # as the file recorded it
    assert what.startswith("What      Argument 1: 0.375 → 0.25.")
    [sure] = [line for line in lines if line.startswith("Sure")]
    assert sure.startswith("Sure      97 %: Strong evidence.")
    assert "Else Tensor.__mul__.44.forward (1 %: weak evidence)." in " ".join(lines)


def test_every_command_stands_on_a_line_of_its_own_and_runs(
    demo_database: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    lines = lines_of(demo_database, capsys)
    commands = [shlex.split(line) for line in lines if line.lstrip().startswith("msprobe-")]
    assert [words[0] for words in commands] == [
        "msprobe-operators",
        "msprobe-build",
        "msprobe-operators",
    ]
    assert main(commands[1][1:]) == 0
    config = json.loads(Path("config.json").read_text("utf-8"))
    assert config["task"] == "tensor"


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_fact_of_a_verdict_is_on_its_card(
    language: str,
    demo_database: Path,
    nan_database: Path,
    dumps: Path,
    build_database: BuildDatabase,
) -> None:
    ranks = build_database(
        dumps / "ddp4_statistics_wrong_attention_scale", dumps / "ddp4_statistics"
    )
    clean = build_database(dumps / "llama_statistics_renamed_all", dumps / "llama_statistics")
    for database in (demo_database, nan_database, ranks, clean):
        with opened(database) as connection:
            verdict = read_verdict(connection)
        assert verdict is not None
        card = card_of(verdict)
        told = [*card.what, *card.sure, *card.follows, *card.limits]
        asked = {"accused", "look_first", "place", "argument", "probability"}
        assert sorted(one.code for one in told) == sorted(
            one.code for one in verdict.said if one.code not in asked
        )
        assert len(card.differing) == sum(one.code == "argument" for one in verdict.said)
        assert (card.suspect is None) == (verdict.conclusion == "clean")
        assert tell(told, language)


def test_a_probability_is_told_beside_the_evidence(
    dumps: Path, build_database: BuildDatabase, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "llama_tensor_wrong_attention_scale", "llama_tensor"
    database = build_database(*(dumps / name for name in names))
    answer = json.loads("\n".join(lines_of(database, capsys, "--json")))
    probability = answer["suspects"][0]["probability"]
    assert probability is not None
    said = " ".join(lines_of(database, capsys))
    assert f"Sure {round(100 * probability)} %: " in " ".join(said.split())


@pytest.mark.parametrize(
    ("value", "call", "written"),
    [
        ("[None, None, 2]", "Tensor.__getitem__.3.forward", "::2"),
        ("[1, None, None]", "Tensor.__getitem__.3.forward", "1:"),
        ("[None, -1, None]", "Tensor.__setitem__.3.forward", ":-1"),
        ("[None, None, 2]", "Torch.roll.0.forward", "[None, None, 2]"),
        ("[0, 1]", "Tensor.__getitem__.3.forward", "[0, 1]"),
    ],
)
def test_a_slice_is_written_as_in_code(value: str, call: str, written: str) -> None:
    said = fact("argument", name="0", own=value, theirs=value), fact("clean", nodes=1)
    [argument, other] = with_slices(said, call)
    assert (argument["name"], argument["own"], argument["theirs"]) == ("0", written, written)
    assert other == said[1]


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("Module.model.layers.1.self_attn.LlamaAttention.forward.0", "model.layers.1.self_attn"),
        ("Module.model.layers.1.self_attn", "model.layers.1.self_attn"),
        ("Cell.network.dense.Dense.backward.0", "network.dense"),
        ("DefaultModel", "DefaultModel"),
        ("Module.a.b.c.d.e.f.g.h", "a.b.c.….f.g.h"),
    ],
)
def test_a_module_is_told_by_its_path_without_its_middle(name: str, path: str) -> None:
    assert short_path(module_path(name)) == path


def test_code_that_a_file_holds_does_not_move_the_cursor(
    demo_database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = Path(shutil.copy(demo_database, tmp_path / "hostile.vis.db"))
    with closing(sqlite3.connect(hostile)) as connection:
        connection.execute(
            "UPDATE text SET value = value || char(27) || '[2J' || char(10) || ?", ("x" * 50_000,)
        )
        connection.commit()
    capsys.readouterr()
    main(["verdict", str(hostile)])
    printed = capsys.readouterr()
    assert all(one.isprintable() or one == "\n" for one in printed.out + printed.err)
