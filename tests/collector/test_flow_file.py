"""``flow.bin`` as a file: what asks for it, and what becomes of damaged ones."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from msprobe_builder.base.errors import BuildError
from msprobe_builder.dump.flow_file import flow_path, read_flow
from msprobe_builder.dump.flow_layout import Maker
from msprobe_collector.config.settings import parse_config
from msprobe_collector.errors import CollectorError
from tests.collector.recording import Dump, record

FLOW = {"flow": True}


@pytest.mark.parametrize("value", [1, "yes", []])
def test_a_wrong_setting_is_named(value: Any) -> None:
    with pytest.raises(CollectorError, match=r"flow is .*; write true or false"):
        parse_config({"dump_path": "dump", "statistics": {"flow": value}})


def test_it_does_not_work_at_level_debug() -> None:
    with pytest.raises(CollectorError, match="flow works at level"):
        parse_config({"dump_path": "dump", "level": "debug", "statistics": FLOW})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Dump:
    x = torch.ones(3, requires_grad=True)
    path = tmp_path_factory.mktemp("whole")
    step = lambda: (F.relu(x) + x.exp()).sum().backward()  # noqa: E731
    return record(path, step, level="L1", statistics=FLOW)


def test_every_shortened_file_is_read_up_to_where_it_ends(whole: Dump, tmp_path: Path) -> None:
    content = flow_path(whole.directory).read_bytes()
    names = list(whole.data)
    counts = []
    for end in range(len(content) + 1):
        (tmp_path / "flow.bin").write_bytes(content[:end])
        flow = read_flow(tmp_path / "flow.bin", names)
        assert flow is not None
        counts.append(len(flow.rows))
    assert counts == sorted(counts)
    assert counts[-1] > counts[0] == 0


def test_every_changed_byte_is_found(whole: Dump, tmp_path: Path) -> None:
    content = bytearray(flow_path(whole.directory).read_bytes())
    truth = read_flow(flow_path(whole.directory), list(whole.data))
    assert truth is not None
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        (tmp_path / "flow.bin").write_bytes(changed)
        with pytest.raises(BuildError, match=r"flow\.bin .*; "):
            read_flow(tmp_path / "flow.bin", list(whole.data))


def test_rows_of_records_that_are_missing_are_left_out(whole: Dump) -> None:
    names = list(whole.data)
    flow = read_flow(flow_path(whole.directory), names[:3])
    assert flow is not None
    assert len(flow.rows)
    assert int(flow.rows["record"].max()) < 3
    of_records = flow.rows[flow.rows["kind"] == Maker.RECORD]
    assert np.all(of_records["maker"] < 3)


def test_a_file_of_another_dump_is_refused(whole: Dump) -> None:
    names = list(whole.data)
    names[1] = "Torch.other.0.forward"
    with pytest.raises(BuildError, match="of another dump"):
        read_flow(flow_path(whole.directory), names)


def test_a_name_of_several_lines_is_one_name(whole: Dump) -> None:
    first, second, *names = whole.data
    with pytest.raises(BuildError, match="of another dump: record 0 of"):
        read_flow(flow_path(whole.directory), [f"{first}\n{second}", *names])


@pytest.mark.parametrize(
    ("section", "more"),
    [({"flow": False}, ["sketch.bin"]), ({"summary_mode": "statistics"}, [])],
)
def test_a_dump_without_it_has_none(
    section: dict[str, Any], more: list[str], tmp_path: Path
) -> None:
    dump = record(tmp_path, lambda: torch.ones(3).exp(), level="L1", statistics=section)
    assert read_flow(flow_path(dump.directory), list(dump.data)) is None
    files = sorted(one.name for one in dump.directory.iterdir())
    assert files == ["construct.json", "dump.json", *more, "stack.json"]
