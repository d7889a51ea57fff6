"""The configurations that were given with the dumps: compared before anything else is read."""

from __future__ import annotations

from collections.abc import Sequence

from msprobe_builder.base.errors import UsageError
from msprobe_builder.database.read.configuration import (
    Configuration,
    ConfigurationDifference,
    ConfigurationPart,
)
from msprobe_builder.facts.fact import Argument, Fact, fact
from msprobe_builder.pipeline.config import BuildConfig

_KEPT = 1000  # differences of one part: there may be one for each weight of each rank
_LONGEST = 2000  # characters of a value


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
            one.level, one.name[:_LONGEST], cut(one.other), cut(one.bench), (_cut(one.said),)
        )

    found = compare_packs(read_pack(config.bench_config), read_pack(config.npu_config))
    parts = [
        ConfigurationPart(
            sheet.name,
            sheet.outcome,
            len(sheet.differences),
            () if sheet.first is None else (_cut(sheet.first),),
            tuple(map(stored, sheet.differences[:_KEPT])),
        )
        for sheet in found.sheets
    ]
    parts += [
        ConfigurationPart(name, "unknown", 0, (_unknown(name in found.missing),), ())
        for name in unknown_parts(found)
    ]
    said = fact("configuration.concluded", conclusion=_cut(conclusion(found)))
    return Configuration(outcome(found), (said,), tuple(parts))


def _cut(said: Fact) -> Fact:
    """The fact with no text longer than is kept."""
    return Fact(said.code, {name: _cut_argument(one) for name, one in said.arguments.items()})


def _cut_argument(value: Argument) -> Argument:
    if isinstance(value, str):
        return value[:_LONGEST]
    if isinstance(value, Fact):
        return _cut(value)
    return tuple(map(_cut_argument, value)) if isinstance(value, Sequence) else value


def _unknown(is_one_sided: bool) -> Fact:
    return fact("configuration.only_one") if is_one_sided else fact("configuration.none_holds")
