"""Whether equal names settle everything, as in two runs of one program: then there is no rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.exchanged import exchanged_places
from msprobe_builder.align.evidence.sites import Sites, at_other_sites, shared_sites
from msprobe_builder.base.texts import Texts
from msprobe_builder.graph.side import Side
from msprobe_builder.match.matching import Alignment, Told
from msprobe_builder.match.outline import Outline

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]


def align_rest(
    npu: Side,
    bench: Side,
    outline: Outline,
    other_outline: Outline,
    partner: Int,
    asked: Bool,
    texts: Texts,
    told: Told | None = None,
) -> Alignment:
    """``partner`` completed by what the evidence shows, and then by what was ``told``.

    Pairs that were ``asked`` for stay; others give way where the evidence contradicts them.
    """
    site, other_site = shared_sites(npu, bench)
    elsewhere = (partner >= 0) & at_other_sites(site, other_site[partner])
    sites = site, other_site
    elsewhere |= exchanged_places(npu, bench, outline, other_outline, partner, sites)
    elsewhere &= ~asked
    if _is_settled(npu, bench, partner) and not elsewhere.any():
        return Alignment(partner, np.zeros(len(partner), dtype=np.int64), np.zeros(len(partner)))
    from msprobe_builder.align.align import align_by_evidence

    known = Sites(site, other_site, elsewhere)
    found = align_by_evidence(npu, bench, outline, other_outline, partner, asked, texts, known)
    if told is None:
        return found
    from msprobe_builder.align.from_other_ranks import with_told

    return with_told(found, npu, bench, told)


def _is_settled(npu: Side, bench: Side, partner: Int) -> bool:
    """Whether equal names leave nothing over, and nothing speaks against them."""
    tree, other = npu.tree, bench.tree
    return bool(
        len(tree) == len(other)
        and (partner >= 0).all()
        and (tree.micro_step == other.micro_step[partner]).all()
        and (tree.is_recompute == other.is_recompute[partner]).all()
    )
