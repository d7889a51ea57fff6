"""Offline builder: dump directories in, one ``.vis.db`` file out.

Names are loaded at first use, so that a program pays for the parts it takes: the plugin imports
the readers of the database without the build.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from msprobe_builder.base.version import __version__

if TYPE_CHECKING:
    from msprobe_builder.base.errors import BuildError, UsageError
    from msprobe_builder.base.options import BuildOptions
    from msprobe_builder.database.read.tables import Selection
    from msprobe_builder.dump.source import InMemoryDump
    from msprobe_builder.export.table import export_table
    from msprobe_builder.pipeline.build import BuildResult, build
    from msprobe_builder.pipeline.config import BuildConfig, read_config
    from msprobe_builder.pipeline.merged_export import ExportResult, export_merged
    from msprobe_builder.tables.compare import compare, compare_distributed, read_table

_PLACES = {
    "BuildConfig": "pipeline.config",
    "BuildError": "base.errors",
    "BuildOptions": "base.options",
    "BuildResult": "pipeline.build",
    "ExportResult": "pipeline.merged_export",
    "InMemoryDump": "dump.source",
    "Selection": "database.read.tables",
    "UsageError": "base.errors",
    "build": "pipeline.build",
    "compare": "tables.compare",
    "compare_distributed": "tables.compare",
    "export_merged": "pipeline.merged_export",
    "export_table": "export.table",
    "read_config": "pipeline.config",
    "read_table": "tables.compare",
}

__all__ = [
    "BuildConfig",
    "BuildError",
    "BuildOptions",
    "BuildResult",
    "ExportResult",
    "InMemoryDump",
    "Selection",
    "UsageError",
    "__version__",
    "build",
    "compare",
    "compare_distributed",
    "export_merged",
    "export_table",
    "read_config",
    "read_table",
]


def __getattr__(name: str) -> object:
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"{__name__}.{place}"), name)
    globals()[name] = value  # the next use finds it without asking
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
