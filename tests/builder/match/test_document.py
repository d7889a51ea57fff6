"""docs/matching.md against the code."""

from __future__ import annotations

import json
import re
from pathlib import Path

from msprobe_builder.base.codes import Reason, Source
from msprobe_builder.match.match_file import read_match_file
from msprobe_builder.match.rules import read_rules

TEXT = (Path(__file__).parents[3] / "docs" / "matching.md").read_text(encoding="utf-8")


def test_every_reason_and_every_source_is_explained() -> None:
    reasons = TEXT[TEXT.index("## Why is it grey?") :]
    assert re.findall(r"^\| `(\w+)`", reasons, flags=re.M) == [one.name.lower() for one in Reason]
    sources = re.findall(r"\| (\d), (\w+) \|$", TEXT, flags=re.M)
    assert [(int(number), name) for number, name in sources] == [
        (one.value, one.name.lower()) for one in Source
    ]


def test_the_examples_can_be_read(tmp_path: Path) -> None:
    examples = dict(re.findall(r"```(\w+)\n(.*?)```", TEXT, flags=re.S))
    mapping, pairs = tmp_path / "mapping.yaml", tmp_path / "pairs.json"
    mapping.write_text(examples["yaml"], encoding="utf-8")
    pairs.write_text(examples["json"], encoding="utf-8")
    assert [str(rule) for rule in read_rules(mapping).rules] == [
        "TopLayer: module: model",
        "GPTModel: language_model.encoder: decoder",
        "ParallelMLP: dense_h_to_4h: linear_fc1",
    ]
    assert len(read_match_file(pairs)) == len(json.loads(examples["json"])["matches"])
