"""The ranks of one data-parallel replica, before anything of them is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from msprobe_builder.dump.source import Source
from msprobe_builder.merge.ranks.layout import ParallelLayout, Replica


@dataclass(frozen=True)
class ReplicaSource:
    """The ranks of one replica and the layout they were run in.

    ``peers`` are other replicas whose tokens went to the same experts, here or on the other side.
    ``holders`` are all replicas, where parts of what is sharded over them are to be put together,
    ``wholes`` the shapes of the parameters on the other side, if that is not cut, ``words`` the
    sizes of the words or whatever else enters it, if its sequences are whole.
    """

    layout: ParallelLayout
    replica: Replica
    sources: Mapping[int, Source]
    peers: tuple[Replica, ...] = ()
    holders: tuple[Replica, ...] = ()
    wholes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    words: tuple[int, ...] = ()

    def __str__(self) -> str:
        return str(self.sources[self.replica.label])
