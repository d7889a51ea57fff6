"""From a database of the tool this one replaces to one of ours; the original stays as it is."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from msprobe_builder.base.diagnostics import Diagnostic
from msprobe_builder.base.errors import BuildError
from msprobe_builder.base.options import DEFAULT_OPTIONS
from msprobe_builder.base.publish import file_name, published, reserve, temporary_folder
from msprobe_builder.database.write.imported import complete_import
from msprobe_builder.facts.fact import fact
from msprobe_builder.importers.reference_rows import ReferenceFile, read_reference
from msprobe_builder.pipeline.build import BuildResult, build
from msprobe_builder.pipeline.config import BuildConfig

_IMPORTED = fact("note.imported")
_NO_REAL_DATA = fact("note.imported_real_data")


def import_reference(source: Path, output: Path) -> BuildResult:
    """Write ``output``, a .vis.db of ours, with all steps and ranks of ``source``.

    Raises UsageError or BuildError with one sentence; ``output`` does not appear then.
    """
    found = read_reference(source)
    target = reserve(output.parent, file_name(output.name))
    # Beside the target: it is moved there in the end.
    with temporary_folder(target.parent, "importing") as folder:
        result = build(_config(found, folder), folder, name="imported", workers=1)
        findings = _complete(result.path, source, found)
        try:
            with published(target) as temporary:
                shutil.move(result.path, temporary)
        except OSError as error:
            raise BuildError(f"Cannot write {target}: {error.strerror}.") from error
    return replace(result, path=target, diagnostics=[*result.diagnostics, *findings])


def _config(found: ReferenceFile, folder: Path) -> BuildConfig:
    options = replace(DEFAULT_OPTIONS, overflow_check=found.checks_overflow, allow_missing=True)
    if not found.bench:
        return BuildConfig(found.npu, options=options)
    matches = folder / "matches.json"
    matches.write_text(json.dumps({"version": 1, "matches": found.pairs}), encoding="utf-8")
    return BuildConfig(found.npu, found.bench, options=replace(options, match_file=matches))


def _complete(path: Path, source: Path, found: ReferenceFile) -> list[Diagnostic]:
    """Say where the file comes from."""
    findings = [Diagnostic("info", "imported", _IMPORTED, source.name)]
    if found.had_real_data:
        findings.append(Diagnostic("warning", "imported_real_data", _NO_REAL_DATA))
    complete_import(path, f"imported from {source.name}", findings)
    return findings
