"""Calls by which the ranks of merged models talk, where these are cut at other places."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from msprobe_builder.dump.names import PEER_COLLECTION
from msprobe_builder.graph.kept_parameters import keeps_parameters, packs
from msprobe_builder.graph.tree import Tree


def of_other_stages(npu: Tree, bench: Tree) -> NDArray[np.bool_]:
    """What two merged pipelines send between their stages, where these are cut at other places.

    No send of one is a send of the other then. That they talk another number of times tells.
    """
    inside, other = _between_stages(npu), _between_stages(bench)
    calls, other_calls = (
        Counter(tree.parsed[node].stem for node in np.flatnonzero(nodes).tolist())
        for tree, nodes in ((npu, inside), (bench, other))
    )
    is_same = not calls or not other_calls or calls == other_calls
    return np.zeros(len(npu), dtype=bool) if is_same else inside


def _between_stages(tree: Tree) -> NDArray[np.bool_]:
    """Collections of sends between stages, and the calls in them."""
    collections = np.zeros(len(tree), dtype=bool)
    for node in np.flatnonzero(tree.parent == 0).tolist():
        collections[node] = tree.names[node].startswith(f"{PEER_COLLECTION}.")
    return np.asarray(collections | collections[tree.parent])


def of_other_units(npu: Tree, bench: Tree) -> NDArray[np.bool_]:
    """What gathers and shares out the parameters of each unit, where units hold other ones.

    A stage has units of its own: that parameters are packed another number of times tells.
    """
    is_same = npu.calls.of_stems(packs).sum() == bench.calls.of_stems(packs).sum()
    return np.asarray(keeps_parameters(npu.calls, npu.parent) & (not is_same))
