"""``msprobe-run`` on real commands: status, sentences, ranks, processes that start processes."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from msprobe_collector.run.command import main
from tests.collector.recording import read_dump

RUN = "import sys; from msprobe_collector.run.command import main; sys.exit(main())"

TRAIN = """
import os, sys
import torch
from torch import nn
torch.set_num_threads(1)
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
    mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (2,), mesh_dim_names=("dp",))
    model = nn.parallel.DistributedDataParallel(model)
if "--compiled" in sys.argv:
    model = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for _ in range(3):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
print("sum", sum(one.sum().item() for one in model.parameters()).hex())
if "RANK" in os.environ:
    torch.distributed.destroy_process_group()
sys.exit(7)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(TRAIN)
    return tmp_path


def recorded(*words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """The command with these words; in ``folder``, where one is given."""
    return subprocess.run(
        [sys.executable, "-c", RUN, *words], capture_output=True, text=True, cwd=folder, check=False
    )


def test_a_shell_script_is_run_as_it_is(here: Path) -> None:
    script = here / "run.sh"
    script.write_text(f"echo before\ncd /\nexec {sys.executable} {here}/train.py\n")
    plain = subprocess.run(["sh", script], capture_output=True, text=True, check=False)
    answer = recorded("-o", "dump", "--steps", "0,2", "--", "sh", str(script))
    assert (answer.returncode, answer.stdout) == (7, plain.stdout)
    assert sorted(path.name for path in (here / "dump").iterdir()) == ["step0", "step2"]
    assert read_dump(here / "dump" / "step0" / "rank").names("Module.0.Linear.forward")
    said = answer.stderr
    assert "The model is Sequential (30 parameters to train)." in said
    assert "A step ends where SGD has stepped." in said
    assert f"2 steps of 1 rank: {here}/dump" in said


def test_each_rank_that_is_chosen_is_recorded(here: Path) -> None:
    launcher = ("-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone")
    words = ("--ranks", "dp=1", "--stop-after", "--", sys.executable, *launcher, "train.py")
    answer = recorded("-o", "dump", *words)
    assert answer.returncode == 90, answer.stderr
    assert "sum" not in answer.stdout  # the training was ended
    assert [str(path.relative_to(here)) for path in here.glob("dump/*/*")] == ["dump/step0/rank1"]
    assert "1 step of 1 rank" in answer.stderr
    assert "The training was ended behind step 0, as --stop-after says." in answer.stderr


def test_ranks_end_together_where_the_first_of_them_keeps_the_store(here: Path) -> None:
    """It leaves while the other one, which came before it, still asks whether all have come."""
    (here / "in_turn.py").write_text(
        textwrap.dedent("""
        import os, pathlib, runpy, sys, time
        from torch.optim.optimizer import register_optimizer_step_post_hook
        pause, asleep = time.sleep, pathlib.Path("asleep")
        def sleep(seconds):
            if sys._getframe(1).f_code.co_name == "_wait_for_others":
                asleep.touch()
                while pathlib.Path("first").exists():
                    pause(0.01)
            pause(seconds)
        def wait(*_):
            while not asleep.exists():
                pause(0.01)
        if os.environ["RANK"] == "1":
            time.sleep = sleep
        else:
            register_optimizer_step_post_hook(wait)
        runpy.run_path("train.py")
        """)
    )
    (here / "launch.py").write_text(
        textwrap.dedent("""
        import os, pathlib, socket, subprocess, sys
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        where = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        pathlib.Path("first").touch()
        first, second = (
            subprocess.Popen([sys.executable, "in_turn.py"], env=where | {"RANK": rank})
            for rank in "01"
        )
        first.wait()
        pathlib.Path("first").unlink()
        sys.exit(second.wait())
        """)
    )
    answer = recorded("-o", "dump", "--stop-after", "--", sys.executable, "launch.py")
    assert answer.returncode == 90, answer.stderr
    assert "Nothing is recorded any more" not in answer.stderr
    assert "1 step of 2 ranks" in answer.stderr


def test_what_is_said_is_said_in_the_language_of_the_user() -> None:
    words = ("--", sys.executable, "-c", "import torch")
    assert "none called a module" in recorded("--language", "en", *words).stderr
    assert "1 个进程导入了 torch" in recorded("--language", "zh", *words).stderr


@pytest.mark.slow  # a minute on a busy machine
def test_processes_that_a_training_spawns_are_followed(here: Path) -> None:
    (here / "spawn.py").write_text(
        textwrap.dedent("""
        import runpy, sys, torch.multiprocessing
        def work(rank):
            try:
                runpy.run_path("train.py", run_name="__main__")
            except SystemExit:
                pass
        if __name__ == "__main__":
            torch.multiprocessing.spawn(work, nprocs=1)
        """)
    )
    answer = recorded("-o", "dump", "--", sys.executable, "spawn.py")
    assert (answer.returncode, len(list(here.glob("dump/step*")))) == (0, 1), answer.stderr


@pytest.mark.slow  # a minute on a busy machine
def test_a_compiled_model_stays_one_graph(here: Path) -> None:
    words = (sys.executable, "train.py", "--compiled")
    plain = subprocess.run(words, capture_output=True, text=True, check=False)
    answer = recorded("-o", "dump", "--level", "L0", "--steps", "1", "--", *words)
    assert (answer.returncode, answer.stdout) == (7, plain.stdout), answer.stderr
    assert (here / "dump" / "step1" / "rank" / "dump.json").exists()


def test_a_seed_reaches_every_generator(here: Path) -> None:
    (here / "draw.py").write_text("import torch, random; print(torch.rand(1), random.random())")
    answer = recorded("--seed", "5", "--", sys.executable, "draw.py")
    random.seed(5)
    drawn = torch.rand(1, generator=torch.Generator().manual_seed(5))
    assert answer.stdout == f"{drawn} {random.random()}\n"  # noqa: S311


def test_the_sitecustomize_of_the_user_runs_as_ever(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "own").mkdir()
    (here / "own" / "sitecustomize.py").write_text("print('mine', __name__, __file__)")
    monkeypatch.setenv("PYTHONPATH", str(here / "own"))
    text = "import sys, sitecustomize; print(sitecustomize.__file__, 'torch' in sys.modules)"
    words = [sys.executable, "-c", text]
    plain = subprocess.run(words, capture_output=True, text=True, check=True)
    assert main(["--", *words]) == 0
    assert capfd.readouterr().out == plain.stdout


@pytest.mark.parametrize(
    "asked",
    [
        "importlib.util.find_spec('torch')",
        "[importlib.util.find_spec('torch') for _ in range(3)]",
        "importlib.util.module_from_spec(importlib.util.find_spec('torch'))",
        "importlib.util.find_spec('torch').loader.get_source('torch')",
        "importlib.metadata.version('torch')",
    ],
)
def test_a_library_may_ask_for_torch_before_anybody_imports_it(here: Path, asked: str) -> None:
    """As transformers does: whether it is there says not that it is imported."""
    text = f"import importlib.util, importlib.metadata\n{asked}\n{TRAIN}"
    (here / "asks.py").write_text(text + "import torch.version\n")
    answer = recorded("-o", "dump", "--", sys.executable, "asks.py")
    assert (answer.returncode, len(list(here.glob("dump/step*")))) == (7, 1), answer.stderr


def test_a_signal_ends_the_command_and_its_steps_stay(here: Path) -> None:
    (here / "wait.py").write_text(
        TRAIN.replace("sys.exit(7)", "print('ready', flush=True)\nimport time\ntime.sleep(600)")
    )
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, "-o", "dump", "--", sys.executable, "wait.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    while "ready" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 128 + signal.SIGTERM
    assert read_dump(here / "dump" / "step0" / "rank").names("Module.0.Linear.backward")
    assert "1 step of 1 rank" in said


SAID: list[tuple[Sequence[str], int, str]] = [
    ((), 2, "There is no command"),
    (("--steps", "1,x", "--", "a"), 2, "--steps is '1,x'; write numbers and ranges"),
    (("--steps", "5-2", "--", "a"), 2, "--steps is '5-2'"),
    (("--ranks", "dp", "--", "a"), 2, "--ranks is 'dp'"),
    (("--ranks", "dp=x", "--", "a"), 2, "--ranks is 'dp=x'; write 0-3, or places on axes"),
    (("--level", "L9", "--", "a"), 2, "level is 'L9'; choose one of"),
    (("--level", "debug", "--", "a"), 2, "msprobe-run cannot do level debug"),
    (("--task", "grad_probe", "--", "a"), 2, "msprobe-run cannot do task grad_probe"),
    (("--task", "sums", "--", "a"), 2, "task is 'sums'"),
    (("--list", "a,,b", "--", "a"), 2, "--list is 'a,,b'"),
    (("--seed", "-1", "--", "a"), 2, "--seed is '-1'"),
    (("--seed", "4294967296", "--", "a"), 2, "--seed is '4294967296'"),
    (("--deterministic", "--", "a"), 2, "--deterministic needs --seed"),
    (("--steps", "all", "--stop-after", "--", "a"), 2, "--stop-after needs to know the last step"),
    (("--config", "none.json", "--", "a"), 2, "none.json cannot be read"),
    (("--plan", "none.json", "--", "a"), 2, "none.json cannot be read"),
    (("--plan", "none.json", "--steps", "1", "--", "a"), 2, "--plan says what to record"),
    (("--watch", "none", "--", "a"), 2, "none holds no step*/rank*/dump.json to compare with."),
    (("--compare-compiled", "--", sys.executable, "-c", "import torch"), 0, "Nothing was compiled"),
    (("--", "no_such_program"), 127, "no_such_program was not found."),
    (("--", "."), 127, ". may not be run."),
    (("--", sys.executable, "-c", "1"), 0, "imported no torch that could be seen"),
    (("--", sys.executable, "-I", "-c", "import torch"), 0, "started with -I, -E or -S"),
    (("--", sys.executable, "-c", "import torch"), 0, "none called a module in training mode"),
    (
        ("--ranks", "dp=0", "--", sys.executable, "train.py"),
        7,
        "--ranks asks for dp, but this training has no axis of that name",
    ),
    (
        ("--ranks", "3", "--", sys.executable, "train.py"),
        7,
        "no process reached a step that --steps and --ranks select",
    ),
]


def named(words: Sequence[str]) -> str:
    """The same wherever Python lies."""
    return " ".join("python" if word == sys.executable else word for word in words)


@pytest.mark.parametrize(
    ("words", "status", "sentence"), SAID, ids=[named(words) for words, _, _ in SAID]
)
def test_what_cannot_be_is_said(
    words: Sequence[str],
    status: int,
    sentence: str,
    here: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(words) == status
    said = capfd.readouterr().err
    assert f"msprobe-run: {sentence}" in said or sentence in said
    assert not (here / "msprobe_dump").exists()


def test_nothing_runs_slower_where_nothing_is_recorded() -> None:
    """Before torch nothing of ours is imported but the file that waits for it."""
    text = "import sys, json; print([name for name in sys.modules if 'msprobe' in name])"
    answer = recorded("--", sys.executable, "-c", text)
    assert eval(answer.stdout) in ([], ["__editable___msprobe_graph_0_1_0_finder"])  # noqa: S307
