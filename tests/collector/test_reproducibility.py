"""Who draws is written down, and with ``is_enhanced`` everybody draws from one state."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from tests.processes import run_program

DRAWS = """
    import json, random
    import numpy as np
    import torch
    from torch.nn import functional
    from msprobe_collector.compat import random_save, seed_all, set_reproducibility

    def draws():
        return [
            torch.rand(2).tolist(),
            torch.empty(3).normal_().tolist(),
            random.random(),
            np.random.standard_t(3, 2).tolist(),
            functional.dropout(torch.ones(8)).tolist(),
            torch.tensor([0.2, 0.8]).multinomial(4, True).tolist(),
        ]
"""


def answered(folder: Path, program: str) -> list[list[object]]:
    """What a program prints, a line of JSON each."""
    answer = run_program(folder, DRAWS + program)
    assert not answer.returncode, answer.stderr
    return [json.loads(line) for line in answer.stdout.splitlines()]


@pytest.mark.parametrize(
    "call", ["seed_all(7, is_enhanced=True)", "set_reproducibility(7, is_enhanced=True)"]
)
def test_what_is_drawn_more_changes_nothing(call: str, tmp_path: Path) -> None:
    first, again, alone = answered(
        tmp_path,
        f"""
    {call}
    print(json.dumps(draws()))
    torch.randint(0, 3, (2,)); random.gauss(0, 1); np.random.rand(); torch.manual_seed(3)
    print(json.dumps(draws()))
    torch.manual_seed(7)
    print(json.dumps([torch.rand(2, generator=torch.Generator().manual_seed(7)).tolist()]))
    """,
    )
    assert again == first
    assert alone == first[:1]  # drawn as the first call after the seed would


def test_without_it_draws_go_on(tmp_path: Path) -> None:
    first, again = answered(
        tmp_path, "\n    set_reproducibility(7)\n" + "    print(json.dumps(draws()))\n" * 2
    )
    assert all(one != other for one, other in zip(first, again, strict=True))


def test_each_call_that_draws_is_written_with_its_stack(tmp_path: Path) -> None:
    plain, saved = answered(
        tmp_path,
        """
    seed_all(7)
    print(json.dumps(draws()))
    seed_all(7)
    random_save("out")
    print(json.dumps(draws()))
    torch.rand(1)
    """,
    )
    assert saved == plain
    [path] = (tmp_path / "out").iterdir()
    assert path.name.startswith("random_proc")
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    names = "torch_random.rand.0 tensor_random.normal_.0 python_random.random.0"
    names += " numpy_random.standard_t.0 functional_random.dropout.0 tensor_random.multinomial.0"
    assert [row["api_name"] for row in rows] == [*names.split(), "torch_random.rand.1"]
    assert "in draws, \n torch.rand(2).tolist(), \n" in rows[0]["stack"]
    assert "msprobe_collector" not in rows[0]["stack"]


def test_the_file_is_named_by_the_rank_once_it_is_known(tmp_path: Path) -> None:
    answered(
        tmp_path,
        """
    import torch.distributed as dist
    random_save("out")
    torch.rand(1)
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.rand(1)
    """,
    )
    [path] = (tmp_path / "out").iterdir()
    assert path.name.startswith("random_rank0_")
    assert path.read_text(encoding="utf-8").count("torch_random.rand.") == 2


def test_a_folder_that_cannot_be_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    answer = run_program(tmp_path, DRAWS + '\n    random_save("out/more")\n')
    assert "out/more cannot be written: Not a directory." in answer.stderr.splitlines()[-1]
