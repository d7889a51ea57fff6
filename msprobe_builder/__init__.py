"""Offline builder: dump directories in, one ``.vis.db`` file out."""

from msprobe_builder.config import BuildConfig, BuildOptions, read_config
from msprobe_builder.dump.source import InMemoryDump
from msprobe_builder.errors import BuildError, UsageError
from msprobe_builder.export.table import export_table
from msprobe_builder.export.table_rows import Selection
from msprobe_builder.merged_export import ExportResult, export_merged
from msprobe_builder.pipeline import BuildResult, build
from msprobe_builder.version import __version__

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
    "export_merged",
    "export_table",
    "read_config",
]
