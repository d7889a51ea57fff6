"""setuptools, preceded by what it does not know: generate the contract, compile the front end.

A source distribution carries both, so building from one needs neither Node.js nor protoc.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from setuptools import build_meta

import assets
import compiled
import node

Settings = dict[str, Any] | None

# The same source gives the same bytes whenever and by whomever it is built.
os.environ.setdefault("SOURCE_DATE_EPOCH", "315532800")  # 1980, where zip's calendar begins
os.umask(0o022)

compiled.add()

get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def get_requires_for_build_wheel(config_settings: Settings = None) -> list[str]:
    return [*build_meta.get_requires_for_build_wheel(config_settings), *_tools()]


def get_requires_for_build_sdist(config_settings: Settings = None) -> list[str]:
    return [*build_meta.get_requires_for_build_sdist(config_settings), *_tools()]


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    _generate()
    # setuptools packs whatever an earlier build left there, deleted modules included.
    for folder in Path("build").glob("lib*"):
        shutil.rmtree(folder, ignore_errors=True)
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    _generate()
    return str(build_meta.build_sdist(sdist_directory, config_settings))


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """For a working copy: its Makefile generates, and again whenever the sources change."""
    return str(build_meta.build_editable(wheel_directory, config_settings, metadata_directory))


def _is_source_distribution() -> bool:
    return (assets.REPOSITORY / "PKG-INFO").exists()


def _tools() -> list[str]:
    if _is_source_distribution():
        return []
    return [assets.PROTOC] if node.find() else [assets.PROTOC, node.WHEEL]


def _generate() -> None:
    if _is_source_distribution():
        return
    try:
        assets.contract()
        assets.frontend()
    except node.ToolMissingError as problem:
        sys.exit(str(problem))
    except subprocess.CalledProcessError as problem:
        sys.exit(f"'{' '.join(map(str, problem.cmd))}' failed, see above")
