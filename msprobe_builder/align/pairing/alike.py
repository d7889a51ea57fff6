"""Lists that are equal item by item in all that is known: about their items nothing is open."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.align.evidence.sites import at_other_sites
from msprobe_builder.align.evidence.trust import disagreeing
from msprobe_builder.align.pairing.lists import Items
from msprobe_builder.align.pairing.pairs import Pairs, note_all
from msprobe_builder.align.pairing.unordered import has_twins
from msprobe_builder.base.codes import Evidence

Int = NDArray[np.int64]
Bool = NDArray[np.bool_]

_ALIKE = 5.0  # weight of pairs about which nothing is open


def pair_alike(pairs: Pairs, npu: Items, bench: Items) -> None:
    """Match the items of lists of one number that are alike, each with that at its place.

    All are looked at in one go, as layers and micro-steps make thousands of them.
    """
    if not pairs.known.same_code:
        return
    size = max(npu.number, bench.number)
    alike = np.bincount(npu.of, minlength=size) == np.bincount(bench.of, minlength=size)
    a, b, of = npu.nodes[alike[npu.of]], bench.nodes[alike[bench.of]], npu.of[alike[npu.of]]
    alike[of[_differ(pairs, a, b)]] = False
    if not pairs.known.one_code:
        for one in np.flatnonzero(alike).tolist():
            alike[one] = not has_twins(pairs, npu.of_list(one).nodes, bench.of_list(one).nodes)
    a, b = a[alike[of]], b[alike[of]]
    new = pairs.add_all(a, b, Evidence.INSIDE, np.full(len(a), _ALIKE))
    note_all(pairs, a[new], b[new])


def _differ(pairs: Pairs, a: Int, b: Int) -> Bool:
    """Which of the pairs ``a``, ``b`` differ in anything, or have other partners."""
    npu, bench, known = pairs.npu, pairs.bench, pairs.known
    result = npu.operator[a] != bench.operator[b]
    result |= (pairs.partner[a] >= 0) & (pairs.partner[a] != b)
    result |= (pairs.back[b] >= 0) & (pairs.back[b] != a)
    result |= at_other_sites(known.site[a], known.other_site[b])
    is_module = npu.operator[a] < 0
    result |= is_module & known.words.do_other_things(a, known.other_words, b)
    result |= is_module & (npu.below[a] != bench.below[b]).any(axis=1)
    for debug, reference in (
        (npu.inputs, bench.inputs),
        (npu.outputs, bench.outputs),
        (npu.parameters, bench.parameters),
    ):
        result |= known.trust.extent(debug)[a] != known.trust.extent(reference)[b]
    if known.trust.equal:
        result |= disagreeing(npu.outputs, bench.outputs, a, b)
    return np.asarray(result)
