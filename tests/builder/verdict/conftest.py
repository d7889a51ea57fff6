"""What tests of the verdict have in common."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import REPOSITORY, unpacked


@pytest.fixture(scope="session")
def devices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the pairs of runs on two devices: devices / "asked" / "npu"."""
    return unpacked(tmp_path_factory, "devices", REPOSITORY / "tests" / "data" / "devices")
