"""Processes that are copies of one that has imported what takes long, most of what a start takes.

Python keeps one such process for all that ask, so it imports for all of them.
"""

from __future__ import annotations

import multiprocessing

COPIES = multiprocessing.get_context("forkserver")
COPIES.set_forkserver_preload(
    [
        *("torch.distributed", "torch._dynamo"),
        *("tests.collector.processes", "tests.reliability.programs"),
    ]
)
