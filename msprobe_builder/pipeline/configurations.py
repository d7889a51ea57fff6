"""The configurations that were given with the dumps: compared before anything else is read."""

from __future__ import annotations

from msprobe_builder.base.errors import UsageError
from msprobe_builder.database.read.configuration import (
    Configuration,
    ConfigurationDifference,
    ConfigurationPart,
)
from msprobe_builder.pipeline.config import BuildConfig

_KEPT = 1000  # differences of one part: there may be one for each weight of each rank
_LONGEST = 2000  # characters of a value or sentence


def compared_configurations(config: BuildConfig) -> Configuration | None:
    """What both differ in; None where none were given.

    UsageError or BuildError when a file is missing or damaged, or given for one run only.
    """
    if config.npu_config is None and config.bench_config is None:
        return None
    if config.npu_config is None or config.bench_config is None or config.bench_path is None:
        raise UsageError(
            "npu_config and bench_config compare two runs; give both, and a bench_path, or neither."
        )
    from msprobe_builder.configuration.compare import Difference, compare_packs
    from msprobe_builder.configuration.conclusion import conclusion, outcome, unknown_parts
    from msprobe_builder.configuration.pack import read_pack

    def cut(value: str | None) -> str | None:
        return None if value is None else value[:_LONGEST]

    def stored(one: Difference) -> ConfigurationDifference:
        return ConfigurationDifference(
            one.level, one.name[:_LONGEST], cut(one.other), cut(one.bench), one.text[:_LONGEST]
        )

    found = compare_packs(read_pack(config.bench_config), read_pack(config.npu_config))
    parts = [
        ConfigurationPart(
            sheet.name,
            sheet.outcome,
            len(sheet.differences),
            sheet.first[:_LONGEST],
            tuple(map(stored, sheet.differences[:_KEPT])),
        )
        for sheet in found.sheets
    ]
    parts += [
        ConfigurationPart(name, "unknown", 0, _unknown(name in found.missing), ())
        for name in unknown_parts(found)
    ]
    sentence = conclusion(found)
    return Configuration(outcome(found), sentence[:1].upper() + sentence[1:_LONGEST], tuple(parts))


def _unknown(is_one_sided: bool) -> str:
    return "Only one of the two packs holds it." if is_one_sided else "No pack holds it."
