"""Pairs of dumps that properties are tried on, and what is told of a pair."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.properties.telling import Told, told_of
from tests.recorded.case import FOLDER, read_case
from tests.recorded.test_recorded import unpacked

Tell = Callable[[Path, Path], Told]


@pytest.fixture(scope="session")
def recorded() -> Callable[[str], tuple[Path, Path]]:
    """Both folders of a recorded case: recorded("transformers/attn_scale")."""

    def folders(name: str) -> tuple[Path, Path]:
        case = read_case(FOLDER / f"{name}.yaml")
        assert case.archive is not None
        assert isinstance(case.npu, str)
        assert isinstance(case.bench, str)
        place = unpacked(case.archive)
        return place / case.npu, place / case.bench

    return folders


@pytest.fixture(scope="session")
def tell(tmp_path_factory: pytest.TempPathFactory) -> Tell:
    """What is told of two folders; of the same two it is found out once."""

    @functools.cache
    def told(npu: Path, bench: Path) -> Told:
        return told_of(npu, bench, tmp_path_factory.mktemp("told"))

    return told
