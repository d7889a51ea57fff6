"""These tests need MindSpore, which brings its own numpy: make test-mindspore runs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def on_the_cpu() -> Iterator[None]:
    """PyNative mode, and no debugger left behind."""
    import mindspore

    from msprobe_collector.mindspore import PrecisionDebugger

    mindspore.set_device("CPU")
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    mindspore.set_seed(1)
    yield
    mindspore.set_context(mode=mindspore.PYNATIVE_MODE)
    if PrecisionDebugger._current is not None:
        PrecisionDebugger.close()


@pytest.fixture(autouse=True)
def every_call_is_recorded(
    caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> Iterator[None]:
    """A record that fails is left out with a sentence; no test may overlook it."""
    yield
    failures = [text for text in caplog.messages if "was not recorded" in text]
    assert not failures, (request.node.name, failures)
