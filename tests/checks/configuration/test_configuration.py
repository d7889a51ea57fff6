"""Configurations: what is collected, what never is, and the one sentence about a difference."""

from __future__ import annotations

import json
import math
import random
import string
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest
import torch
from torch import nn

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.command.main import main
from msprobe_builder.configuration.compare import compare_packs
from msprobe_builder.configuration.conclusion import conclusion
from msprobe_builder.configuration.pack import read_pack
from msprobe_builder.configuration.secrets import allowed_variables, is_secret
from msprobe_builder.facts.fact import Fact
from msprobe_builder.facts.wording import tell
from msprobe_checks.configuration.collect import collect_static
from msprobe_collector import ConfigChecker
from tests.checks.configuration.test_scripts import SCRIPT


def said(found: Fact | None) -> str:
    return "" if found is None else tell(found)


def test_what_a_script_exports_is_compared_as_environment(tmp_path: Path) -> None:
    packs = []
    for name, line in (("gpu", "export NCCL_ALGO=Ring HF_TOKEN=abc"), ("npu", "")):
        script = tmp_path / f"{name}.sh"
        script.write_text(f"{line}\npython train.py --seed 1\n")
        packs.append(tmp_path / f"{name}.zip")
        collect_static([script], packs[-1])
    bench, other = map(read_pack, packs)
    env = compare_packs(bench, other).sheets[0]
    assert said(env.first) == "NCCL_ALGO is not set against 'Ring'"
    assert len(env.differences) == 1


def test_files_that_are_called_differently_are_compared_by_what_they_hold(tmp_path: Path) -> None:
    packs = []
    for name, more in (("gpu", "--flash --lr 1"), ("npu", "--lr 1")):
        script, settings = tmp_path / f"run_{name}.sh", tmp_path / f"a_{name}.yaml"
        script.write_text(f"python train.py --seed 1 {more}\n")
        settings.write_text(f"model: {{layers: {len(name)}, width: 8, lr: 3}}\n")
        (tmp_path / f"{name}.json").write_text('{"shards": 2}' if name == "gpu" else '{"parts": 2}')
        packs.append(tmp_path / f"{name}.zip")
        collect_static([settings, script, tmp_path / f"{name}.json"], packs[-1])
    sheet = compare_packs(*map(read_pack, packs)).sheets[-1]
    assert [one.text for one in sheet.differences] == [
        "flash is not set against 'true' (one side only)",
        "gpu.json is in one pack only",
        "npu.json is in one pack only",
    ]


def test_of_a_whole_environment_what_changes_numbers_is_read(tmp_path: Path) -> None:
    """The reference tool writes all of it."""
    path = tmp_path / "pack.zip"
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr("env", json.dumps({"HOME": "/root", "NCCL_ALGO": "Ring", "NCCL_KEY": "x"}))
    assert read_pack(path).variables == {"NCCL_ALGO": "Ring", "NCCL_KEY": "(hidden)"}


def test_a_wrapped_model_has_the_weights_of_the_plain_one(tmp_path: Path) -> None:
    numbers = {"max": 1.0, "min": -1.0, "mean": 0.25, "norm": 3.0}
    packs = []
    for name, prefix, norm in (("a", "", 3.0), ("b", "module.", 3.0), ("c", "module.", 4.0)):
        packs.append(tmp_path / f"{name}.zip")
        weights = {f"{prefix}layers.0.w": numbers, f"{prefix}head.w": numbers | {"norm": norm}}
        with zipfile.ZipFile(packs[-1], "w") as pack:
            pack.writestr("weights/step0/rank0/weight.json", json.dumps(weights))
    plain, wrapped, wrong = map(read_pack, packs)
    assert compare_packs(plain, wrapped).outcome == "pass"
    [sheet] = compare_packs(plain, wrong).sheets
    assert [one.name for one in sheet.differences] == ["head.w of micro-step 0, rank 0"]


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ({"mean": 0.25 + 1e-7, "norm": 3.0 + 1e-6}, "warning"),
        ({"mean": 0.25 + 1e-4}, "error"),
        ({"norm": 3.0 + 1e-4}, "error"),
        ({"max": 1.0 + 1e-7}, "error"),
        ({"mean": math.nan}, "error"),
    ],
)
def test_sums_in_another_order_are_no_other_weights(
    tmp_path: Path, change: dict[str, float], level: str
) -> None:
    """As the reference tool computes them on two devices."""
    numbers = {"max": 1.0, "min": -1.0, "mean": 0.25, "norm": 3.0}
    packs = []
    for name, own in (("a", numbers), ("b", numbers | change)):
        packs.append(tmp_path / f"{name}.zip")
        with zipfile.ZipFile(packs[-1], "w") as pack:
            pack.writestr("weights/step0/rank0/weight.json", json.dumps({"w": own}))
    [sheet] = compare_packs(*map(read_pack, packs)).sheets
    assert sheet.outcome == level
    assert ("no more than sums in another order" in said(sheet.first)) == (level == "warning")


def test_secrets_never_leave_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "".join(random.Random(5).choices(string.ascii_letters, k=24))  # noqa: S311
    for name in ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "HCCL_AUTH_KEY", "MY_VARIABLE", "HOME"):
        monkeypatch.setenv(name, secret)
    monkeypatch.setenv("HCCL_ALGO", "ring")
    (tmp_path / "run.sh").write_text(f"python train.py --wandb-api-key {secret} --tokenizer-type T")
    (tmp_path / "c.yaml").write_text(f"db:\n  password: {secret}\nmax_tokens: 5\n")
    collect_static([tmp_path / "run.sh", tmp_path / "c.yaml"], tmp_path / "pack.zip")
    with zipfile.ZipFile(tmp_path / "pack.zip") as pack:
        content = {name: pack.read(name).decode() for name in pack.namelist()}
    assert not any(secret in text for text in content.values())
    assert json.loads(content["env"])["HCCL_ALGO"] == "ring"
    options = json.loads(content["hyperparameters/hyperparameters_static.json"])
    assert options["run.sh"]["tokenizer-type"] == "T"
    assert options["c.yaml"] == {"db.password": "(hidden)", "max_tokens": 5}


@pytest.mark.parametrize(
    ("name", "secret"),
    [("api_key", True), ("tokenizer_model", False), ("max_tokens", False), ("hf_token", True),
     ("wandb-api-key", True), ("num-tokens-per-batch", False), ("password", True), ("lr", False)],
)  # fmt: skip
def test_names_that_hide_their_values(name: str, secret: bool) -> None:
    assert is_secret(name) is secret


def test_only_variables_that_shape_a_training_are_read() -> None:
    given_variables = {"NCCL_ALGO": "Ring", "USER": "me", "MSG": "no", "OMP_NUM_THREADS": "4"}
    assert allowed_variables(given_variables) == {"NCCL_ALGO": "Ring", "OMP_NUM_THREADS": "4"}


def pack_of(tmp_path: Path, name: str, script: str, **environment: str) -> Path:
    (tmp_path / name).mkdir()
    (tmp_path / name / "run.sh").write_text(script)
    with pytest.MonkeyPatch.context() as patch:
        for key, value in environment.items():
            patch.setenv(key, value)
        collect_static([tmp_path / name / "run.sh"], tmp_path / f"{name}.zip")
    return tmp_path / f"{name}.zip"


def said_of(bench: Path, other: Path) -> str:
    return tell(conclusion(compare_packs(read_pack(bench), read_pack(other))))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("--seed 1234", "--seed 1235"), "do not compare the runs yet: seed is '1235' against"),
        (("--lr 1e-4", "--lr 3e-4"), "do not compare the runs yet: lr is '3e-4' against '1e-4'"),
        (("--lr 1e-4", "--lr 0.0001"), "nothing that was collected speaks against"),
        (("--bf16", ""), "look at this first: bf16 is not set against 'true'"),
        (('--data-path "a b" c', "--data-path d"), "look at this first: data-path"),
    ],
)
def test_a_changed_option_is_named(tmp_path: Path, change: tuple[str, str], words: str) -> None:
    bench = pack_of(tmp_path, "bench", SCRIPT)
    assert words in said_of(bench, pack_of(tmp_path, "other", SCRIPT.replace(*change)))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (("--bf16", ""), ("bf16", "true", None)),
        (("--bf16", "--bf16 --fp16"), ("fp16", None, "true")),
        (("--seed 1234", "--seed 1235"), ("seed", "1234", "1235")),
    ],
)
def test_a_difference_has_the_name_of_the_option(
    tmp_path: Path, change: tuple[str, str], expected: tuple[str, str | None, str | None]
) -> None:
    bench = pack_of(tmp_path, "bench", SCRIPT)
    other = pack_of(tmp_path, "other", SCRIPT.replace(*change))
    sheets = compare_packs(read_pack(bench), read_pack(other)).sheets
    found = [one for sheet in sheets for one in sheet.differences]
    assert [(one.name, one.bench, one.other) for one in found] == [expected]


def test_a_lost_flag_is_named_beside_an_option_that_differs(tmp_path: Path) -> None:
    changed = SCRIPT.replace("--seed 1234", "--seed 1235").replace("--bf16", "")
    said = said_of(pack_of(tmp_path, "bench", SCRIPT), pack_of(tmp_path, "other", changed))
    assert said.startswith("do not compare the runs yet: seed is '1235' against '1234'")
    assert "bf16 is not set against 'true'" in said


def test_variables_of_one_meaning_are_compared_across_devices(tmp_path: Path) -> None:
    bench = pack_of(tmp_path, "bench", SCRIPT, NCCL_ALGO="Ring")
    other = pack_of(tmp_path, "other", SCRIPT, HCCL_ALGO="Tree")
    said = said_of(bench, other)
    assert said == "do not compare the runs yet: HCCL_ALGO is 'Tree' against 'Ring'."
    same = pack_of(tmp_path, "same", SCRIPT, HCCL_ALGO="Ring")
    assert said_of(bench, same).startswith("nothing that was collected speaks against")


def test_packages_that_matter_are_compared(tmp_path: Path) -> None:
    bench = pack_of(tmp_path, "bench", SCRIPT)
    with zipfile.ZipFile(bench) as pack:
        content = {name: pack.read(name).decode() for name in pack.namelist()}
    version = str(torch.__version__)
    assert f"torch={version}" in content["pip"]
    content["pip"] = content["pip"].replace(f"torch={version}", "torch=1.0")
    with zipfile.ZipFile(tmp_path / "old.zip", "w") as pack:
        for name, text in content.items():
            pack.writestr(name, text)
    assert f"torch is 1.0 against {version}" in said_of(bench, tmp_path / "old.zip")


def train(output: Path, seed: int, draws: int = 1) -> nn.Module:
    ConfigChecker.apply_patches()
    torch.manual_seed(seed)
    for _ in range(draws):
        random.random()  # noqa: S311
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    ConfigChecker(model, [], output)
    generator = torch.Generator().manual_seed(3)
    for _ in range(4):
        model(torch.ones(2, 4).normal_(generator=generator))
    return model


def test_weights_of_another_seed_are_named(tmp_path: Path) -> None:
    drawing = (torch.rand, torch.Tensor.normal_, random.random)
    model = train(tmp_path / "a.zip", 0)
    train(tmp_path / "b.zip", 0)
    train(tmp_path / "c.zip", 1)
    assert (torch.rand, torch.Tensor.normal_, random.random) == drawing
    assert not model._forward_pre_hooks
    same = compare_packs(read_pack(tmp_path / "a.zip"), read_pack(tmp_path / "b.zip"))
    assert same.outcome == "pass"
    assert {sheet.name for sheet in same.sheets} == {"env", "pip", "dataset", "weights", "random"}
    words = said_of(tmp_path / "a.zip", tmp_path / "c.zip")
    assert words.startswith("do not compare the runs yet: 0.weight of micro-step 0, rank 0 differs")
    weights = read_pack(tmp_path / "a.zip").weights[0, 0]
    torch.manual_seed(0)
    first = nn.Linear(4, 8).weight.detach().double()
    assert weights["0.weight"]["max"] == float(first.max())
    assert weights["0.weight"]["norm"] == pytest.approx(float(first.square().sum().sqrt()))


def as_rank_1(pack: Path, beside: Path, **variables: str) -> None:
    """What was collected in ``pack``, as rank 1 of the run that ``beside`` belongs to writes it."""
    with (
        zipfile.ZipFile(pack) as source,
        zipfile.ZipFile(beside.with_name(f"{beside.stem}.rank1.zip"), "w") as target,
    ):
        for name in source.namelist():
            text = source.read(name).decode()
            if name == "env":
                text = json.dumps({**json.loads(text), **variables})
            target.writestr(name.replace("rank0", "rank1"), text)


def test_what_other_ranks_collected_is_read_too(tmp_path: Path) -> None:
    packs = [tmp_path / name for name in ("a.zip", "b.zip", "c.zip")]
    for pack in packs:
        train(pack, 0)
    train(tmp_path / "other.zip", 1)
    as_rank_1(packs[0], packs[0], NCCL_ALGO="Ring")
    as_rank_1(packs[0], packs[1], NCCL_ALGO="Ring")
    as_rank_1(tmp_path / "other.zip", packs[2], NCCL_ALGO="Tree")
    assert set(read_pack(packs[0]).weights) == {(step, rank) for step in (0, 1) for rank in (0, 1)}
    assert compare_packs(read_pack(packs[0]), read_pack(packs[1])).outcome == "pass"
    comparison = compare_packs(read_pack(packs[0]), read_pack(packs[2]))
    [weights] = [one for one in comparison.sheets if one.name == "weights"]
    assert "0.weight of micro-step 0, rank 1 differs" in said(weights.first)
    [environment] = [one for one in comparison.sheets if one.name == "env"]
    assert "NCCL_ALGO of rank 1 is 'Tree' against 'Ring'" in said(environment.first)
    # A file of a rank that is named itself stands for that rank alone.
    assert set(read_pack(tmp_path / "a.rank1.zip").weights) == {(0, 1), (1, 1)}


def test_other_random_calls_are_counted(tmp_path: Path) -> None:
    train(tmp_path / "a.zip", 0)
    train(tmp_path / "b.zip", 0, draws=3)
    comparison = compare_packs(read_pack(tmp_path / "a.zip"), read_pack(tmp_path / "b.zip"))
    [sheet] = [one for one in comparison.sheets if one.name == "random"]
    assert "random.random is called 3 times against 1" in said(sheet.first)
    assert comparison.outcome == "pass"  # random calls need not agree


def test_the_command_writes_workbook_and_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = pack_of(tmp_path, "bench", SCRIPT)
    other = pack_of(tmp_path, "other", SCRIPT.replace("--seed 1234", "--seed =1+1"))
    out = tmp_path / "out"
    assert main(["config", "compare", str(bench), str(other), "-o", str(out)]) == 0
    assert "do not compare the runs yet: seed is '=1+1'" in capsys.readouterr().out
    book = openpyxl.load_workbook(out / "result.xlsx")
    assert book.sheetnames == ["summary", "env", "pip", "hyperparameters"]
    rows = [[cell.value for cell in row] for row in book["summary"].iter_rows()]
    assert rows[0] == ["filename", "pass_check"]
    assert ["hyperparameters", "error"] in rows
    line = [list(row) for row in book["hyperparameters"].iter_rows()][1]
    assert [cell.value for cell in line] == [
        *("run.sh", "seed", "seed", "1234", "=1+1", "same name", "error"),
    ]
    assert all(cell.data_type != "f" for cell in line)
    assert "seed" in (out / "result.html").read_text()
    again = tmp_path / "zh"
    command = ["config", "compare", str(bench), str(other), "-o", str(again), "--language", "zh"]
    assert main(command) == 0
    assert "结论      请先不要比较两次运行：seed 为 '=1+1'" in capsys.readouterr().out
    assert "<h1>配置</h1>" in (again / "result.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("content", "said"), [(b"", "no zip file"), (b"PK", "damaged"), (b"no zip", "no zip file")]
)
def test_what_is_no_pack_is_said(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(BuildError, match=rf"x\.zip is {said}"):
        read_pack(tmp_path / "x.zip")
    with pytest.raises(UsageError, match="does not exist"):
        read_pack(tmp_path / "y.zip")


@pytest.mark.parametrize("content", ["[]", "{", '{"a": ' * 2000])
def test_odd_content_is_damage(tmp_path: Path, content: Any) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as pack:
        pack.writestr("env", content)
    with pytest.raises(BuildError, match=r"x\.zip is damaged"):
        read_pack(tmp_path / "x.zip")


def test_a_pack_behind_a_password_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as pack:
        pack.writestr("env", "{}")
    content = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(mark) + place] |= 1  # the flag of encryption
    path.write_bytes(content)
    with pytest.raises(BuildError, match=r"x\.zip is damaged"):
        read_pack(path)


def test_a_deflated_pack_that_is_spoilt_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr("env", json.dumps({f"HCCL_{number}": "x" for number in range(99)}))
    content = bytearray(path.read_bytes())
    content[40:60] = b"\xff" * 20
    path.write_bytes(content)
    with pytest.raises(BuildError, match=r"x\.zip is damaged"):
        read_pack(path)


@pytest.mark.parametrize("seed", [12345678901234567, 10**400])
def test_a_large_number_keeps_its_digits(tmp_path: Path, seed: int) -> None:
    for name, value in (("a", seed), ("b", seed + 1)):
        with zipfile.ZipFile(tmp_path / f"{name}.zip", "w") as pack:
            options = {"run.yaml": {"seed": value}}
            pack.writestr("hyperparameters/hyperparameters_static.json", json.dumps(options))
    paths = [str(tmp_path / name) for name in ("a.zip", "b.zip", "out")]
    assert main(["config", "compare", *paths[:2], "-o", paths[2]]) == 0
    book = openpyxl.load_workbook(tmp_path / "out" / "result.xlsx")
    cells = [cell.value for cell in book["hyperparameters"][2]]
    assert cells[3:5] == [str(seed), str(seed + 1)]
