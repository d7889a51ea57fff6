"""The configurations given with the dumps: checked first, stored, and said before anything else."""

from __future__ import annotations

import json
import sqlite3
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from msprobe_builder import BuildConfig, UsageError, build
from msprobe_builder.command.main import main
from tests.builder.small_dumps import forward, tensor, write_dump

SCRIPT = "torchrun train.py --lr 1e-4 --seed 1234 --use-flash-attn --data-path /data/a\n"


def collected(folder: Path, name: str, script: str) -> Path:
    """A file as a user makes it, of a script of one name on both machines."""
    place = folder / name
    place.mkdir(parents=True)
    (place / "run.sh").write_text(script, encoding="utf-8")
    assert main(["config", "collect", str(place / "run.sh"), "-o", str(place / "pack.zip")]) == 0
    return place / "pack.zip"


def request(folder: Path, config: object, *, alone: bool = False) -> Path:
    """A compare.json of two small dumps with this under ``config``."""
    calls = {"Torch.add.0.forward": forward([tensor()], [tensor()])}
    for side in ("npu", "bench"):
        write_dump(folder / side, calls)
    content = {"npu_path": str(folder / "npu"), "config": config, "is_print_compare_log": False}
    if not alone:
        content["bench_path"] = str(folder / "bench")
    path = folder / "compare.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def built(path: Path, *options: str) -> Path:
    """The database that a request makes."""
    output = path.parent / "out"
    assert main(["-i", str(path), "-o", str(output), *options]) == 0
    [database] = output.glob("*.vis.db")
    return database


@pytest.fixture
def planted(tmp_path: Path) -> Path:
    """A request whose run under test has another seed, has lost a flag and reads elsewhere."""
    script = SCRIPT.replace("1234", "1235").replace(" --use-flash-attn", "").replace("/a", "/b")
    packs = {
        "npu": str(collected(tmp_path, "here", script)),
        "bench": str(collected(tmp_path, "there", SCRIPT)),
    }
    return request(tmp_path, packs)


def test_what_differs_is_stored_the_worst_first(planted: Path) -> None:
    with sqlite3.connect(built(planted)) as connection:
        whole = connection.execute(
            "SELECT outcome, differences FROM configuration WHERE part IS NULL"
        ).fetchall()
        differing = connection.execute(
            "SELECT part, level, name, npu_value, bench_value"
            " FROM configuration_difference JOIN configuration USING (configuration_id)"
            " ORDER BY configuration_id, place"
        ).fetchall()
        outcomes = dict(
            connection.execute("SELECT part, outcome FROM configuration WHERE part IS NOT NULL")
        )
    assert whole == [("error", 3)]
    assert differing == [
        ("hyperparameters", "error", "seed", "1235", "1234"),
        ("hyperparameters", "warning", "use-flash-attn", None, "true"),
        ("hyperparameters", "warning", "data-path", "/data/b", "/data/a"),
    ]
    assert outcomes["pip"] == "pass"
    assert outcomes["weights"] == outcomes["dataset"] == "unknown"


def test_the_command_says_it_before_the_verdict(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = built(planted)
    said = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[:1].isalpha()]
    assert said.index("Look") < said.index("Config") < said.index("Verdict")
    assert main(["verdict", str(database)]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith("Config    Do not compare the runs yet: seed is '1235' against '1234'")
    assert main(["verdict", str(database), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["configuration"]
    assert found["outcome"] == "error"
    assert {part["part"]: part["differences"] for part in found["parts"]}["hyperparameters"] == 3


def test_random_calls_alone_are_told_though_they_need_not_be_alike(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packs = {side: collected(tmp_path, f"{side}_pack", SCRIPT) for side in ("npu", "bench")}
    for side, count in (("npu", 3), ("bench", 2)):
        with zipfile.ZipFile(packs[side], "a") as pack:
            calls = {"torch.rand": [{"stack": "train.py:7", "count": count}]}
            pack.writestr("random/rank0.json", json.dumps(calls))
    built(request(tmp_path, {side: str(pack) for side, pack in packs.items()}))
    said = " ".join(capsys.readouterr().out.split())
    assert said.count("torch.rand is called 3 times against 2") == 1
    assert "Config Nothing that was collected speaks against comparing the runs" in said


def test_the_report_shows_it_first(planted: Path, tmp_path: Path) -> None:
    assert main(["report", str(built(planted)), "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert 0 < page.index("Do not compare the runs yet") < page.index("What was compared")
    assert "<td>seed</td><td>1235</td><td>1234</td>" in page


def test_equal_configurations_speak_for_comparing(tmp_path: Path) -> None:
    packs = {side: str(collected(tmp_path, f"{side}_pack", SCRIPT)) for side in ("npu", "bench")}
    with sqlite3.connect(built(request(tmp_path, packs))) as connection:
        rows = connection.execute(
            "SELECT outcome, differences FROM configuration WHERE part IS NULL"
        ).fetchall()
    assert rows == [("pass", 0)]


def test_what_is_appended_later_keeps_it_or_brings_its_own(planted: Path, tmp_path: Path) -> None:
    database = built(planted)
    calls = {"Torch.add.0.forward": forward([tensor()], [tensor()])}
    for side in ("npu", "bench"):
        (tmp_path / side).rename(tmp_path / "rank0")
        (tmp_path / side).mkdir()
        (tmp_path / "rank0").rename(tmp_path / side / "rank0")
        write_dump(tmp_path / side / "rank1", calls)
    content = json.loads(planted.read_text(encoding="utf-8"))
    packs = content.pop("config")
    planted.write_text(json.dumps(content), encoding="utf-8")
    assert main(["-i", str(planted), "--append", str(database)]) == 0
    assert whole_of(database) == ("error", 3)
    for side in ("npu", "bench"):
        write_dump(tmp_path / side / "rank2", calls)
    content["config"] = {"npu": packs["bench"], "bench": packs["bench"]}
    planted.write_text(json.dumps(content), encoding="utf-8")
    assert main(["-i", str(planted), "--append", str(database)]) == 0
    assert whole_of(database) == ("pass", 0)


def whole_of(database: Path) -> object:
    """Outcome and number of differences that a file holds."""
    with sqlite3.connect(database) as connection:
        return connection.execute(
            "SELECT outcome, differences FROM configuration WHERE part IS NULL"
        ).fetchone()


def test_secrets_of_foreign_files_stay_where_they_are(tmp_path: Path) -> None:
    packs = {}
    for side in ("npu", "bench"):
        packs[side] = str(tmp_path / f"{side}.zip")
        with zipfile.ZipFile(packs[side], "w") as archive:
            archive.writestr("env", json.dumps({"WANDB_API_KEY": f"hush-{side}"}))
    database = built(request(tmp_path, packs))
    assert b"hush" not in database.read_bytes()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("a.zip", "config must be an object with the keys 'npu' and 'bench'"),
        ({"npu": "a.zip"}, "config must be an object with the keys 'npu' and 'bench'"),
        ({"npu": "no.zip", "bench": "no.zip"}, "config.npu no.zip: no such file"),
        ({"npu": 7, "bench": "no.zip"}, "config.npu must be the path of a zip file"),
        (
            {"npu": "compare.json", "bench": "compare.json"},
            "compare.json is no zip file; give one of",
        ),
    ],
)
def test_bad_input_is_told_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: object, said: str
) -> None:
    path = request(tmp_path, config)
    assert main(["-i", str(path), "-o", str(tmp_path / "out")]) in (1, 2)
    error = capsys.readouterr().err
    assert said in error
    assert "Traceback" not in error
    assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True


def test_counts_that_are_no_numbers_are_damage(
    planted: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = Path(json.loads(planted.read_text(encoding="utf-8"))["config"]["npu"])
    with zipfile.ZipFile(pack, "a") as archive:
        archive.writestr("random/rank0.json", json.dumps({"randn": [{"count": "many"}]}))
    assert main(["-i", str(planted), "-o", str(planted.parent / "out")]) == 1
    assert f"{pack} is damaged" in capsys.readouterr().err


def test_one_run_has_nothing_to_be_compared_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pack = str(collected(tmp_path, "here", SCRIPT))
    path = request(tmp_path, {"npu": pack, "bench": pack}, alone=True)
    assert main(["-i", str(path), "-o", str(tmp_path / "out")]) == 2
    assert "there is no bench_path" in capsys.readouterr().err


def test_python_must_give_both_as_well(tmp_path: Path) -> None:
    pack = collected(tmp_path, "here", SCRIPT)
    request(tmp_path, {})
    config = BuildConfig(tmp_path / "npu", tmp_path / "bench", npu_config=pack)
    with pytest.raises(UsageError, match="give both"):
        build(config, tmp_path / "out")
    built_one = build(replace(config, bench_config=pack), tmp_path / "out").path
    assert whole_of(built_one) == ("pass", 0)
