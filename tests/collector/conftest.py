"""Without torch there is nothing to record, so these tests are left out."""

# mypy: disable-error-code="no-untyped-call, no-any-return"
# torch is typed in part only.

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["*"]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "failing_records: records are meant to fail in this test")


@pytest.fixture(autouse=True)
def one_debugger_per_test(
    caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> Iterator[None]:
    """Every test may create the process's debugger and leaves none behind, nor a lost record."""
    import torch

    from msprobe_collector import PrecisionDebugger

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    if PrecisionDebugger._current is not None:
        PrecisionDebugger.close()
    torch.set_num_threads(threads)
    failures = [text for text in caplog.messages if "was not recorded" in text]
    assert not failures or request.node.get_closest_marker("failing_records"), failures
