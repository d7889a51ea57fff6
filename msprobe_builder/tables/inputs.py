"""From dumps to the databases that tables are written of, which exist no longer than that."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from msprobe_builder.base.errors import BuildError, UsageError
from msprobe_builder.base.options import BuildOptions
from msprobe_builder.base.publish import scratch_folder
from msprobe_builder.facts.fact import Fact, fact
from msprobe_builder.pipeline.build import BuildResult, build
from msprobe_builder.pipeline.config import BuildConfig
from msprobe_builder.pipeline.executors.run import left_out
from msprobe_builder.tables.saved_values import kinds_of

DataMapping = Mapping[str, str] | str | Path
CALLS, SAVED = "", "debug_"  # what the names of their tables begin with
_IN_WORDS = {CALLS: "dump.json", SAVED: "debug.json"}


@dataclass(frozen=True)
class Built:
    """One comparison; ``prefix`` tells tables of calls from those of saved values."""

    prefix: str
    result: BuildResult

    @property
    def warnings(self) -> list[Fact]:
        """What was left out."""
        return [
            *(left_out(place, reason) for place, reason in self.result.failed),
            *(
                fact("summary.with_subject", said=one.said, subject=one.subject)
                if one.subject
                else one.said
                for one in self.result.diagnostics
                if one.code in ("missing_rank", "match_not_applied")
            ),
        ]


@contextmanager
def built(npu: Path, bench: Path, options: BuildOptions) -> Iterator[list[Built]]:
    """Databases of the comparison that exist within the block: of calls, of saved values."""
    sides = kinds_of(npu, "npu_path"), kinds_of(bench, "bench_path")
    common = [
        (prefix, left, right)
        for prefix, left, right in zip((CALLS, SAVED), *sides, strict=True)
        if left is not None and right is not None
    ]
    if not common:
        has = [_IN_WORDS[CALLS if side[0] is not None else SAVED] for side in sides]
        raise BuildError(f"{npu} has {has[0]} and {bench} has {has[1]}; compare equal kinds.")
    with scratch_folder("msprobe_table") as folder:
        yield [
            Built(
                prefix,
                build(
                    BuildConfig(left, right, options=_options(options, prefix)),
                    folder,
                    name=f"{prefix}table.vis.db",
                ),
            )
            for prefix, left, right in common
        ]


@contextmanager
def mapping_file(mapping: Mapping[Any, Any] | str | Path | None) -> Iterator[Path | None]:
    """A data mapping as a file, whether it is one or a dictionary."""
    if not mapping:
        yield None
    elif not isinstance(mapping, Mapping):
        yield Path(mapping)
    else:
        for npu, bench in mapping.items():
            if not isinstance(npu, str) or not isinstance(bench, str):
                raise UsageError(
                    f"The data mapping must map names to names, not {npu!r}: {bench!r}."
                )
        with scratch_folder("msprobe_mapping") as folder:
            path = folder / "data_mapping.yaml"
            path.write_text(json.dumps(dict(mapping)), encoding="utf-8")  # which YAML includes
            yield path


def _options(options: BuildOptions, prefix: str) -> BuildOptions:
    """Saved values have names of their own: nothing is known of what works on them."""
    return replace(options, flat=True, exact=options.exact or prefix == SAVED)
