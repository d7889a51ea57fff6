"""Which calls of a recorded run are those of this one, where names tell nothing."""

from __future__ import annotations

from pathlib import Path

from msprobe_builder import BuildConfig, build
from msprobe_builder.base.codes import Kind
from msprobe_builder.base.publish import scratch_folder
from msprobe_builder.database.open import opened
from msprobe_builder.database.read.matches import matched_names


def aligned(own: Path, other: Path) -> dict[str, str]:
    """By record of one step and rank that of another run; BuildError if they do not compare.

    Gradients of parameters go with their module.
    """
    with scratch_folder("msprobe_watch") as folder:
        request = BuildConfig(own, other, print_compare_log=False)
        built = build(request, folder, name="watch.vis.db", workers=1)
        with opened(built.path) as connection:
            modules = dict(matched_names(connection, Kind.MODULE))
            found = modules | dict(matched_names(connection, Kind.API))
    for name, partner in modules.items():
        stem, _, _ = name.partition(".forward.")
        if stem != name:
            found[f"{stem}.parameters_grad"] = (
                f"{partner.partition('.forward.')[0]}.parameters_grad"
            )
    return found
