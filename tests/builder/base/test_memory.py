"""What a process gives back of the memory that it has freed."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

# Arrays lie in pieces of the heap from the second time on; what lies above them keeps these there.
_PROGRAM = """
import sys
import numpy
from msprobe_builder.base.memory import give_back_arrays
if sys.argv[1] == "set":
    give_back_arrays()
for _ in range(2):
    arrays = [numpy.ones(1 << 20) for _ in range(20)]
    above = numpy.ones(1 << 13)
    del arrays
with open("/proc/self/statm") as file:
    print(int(file.read().split()[1]) * 4096)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not sys.platform.startswith("linux"),
    reason="other C libraries are left as they are",
)
def test_large_arrays_that_were_freed_take_no_memory() -> None:
    kept, given_back = (
        int(
            subprocess.run(
                [sys.executable, "-c", _PROGRAM, how], capture_output=True, text=True, check=True
            ).stdout
        )
        for how in ("as it is", "set")
    )
    assert kept - given_back > 100_000_000  # of 160 MB


# Each array is freed before the next is made, at the end of the heap.
_ONE_AFTER_THE_OTHER = """
import resource
import numpy
from msprobe_builder.base.memory import give_back_arrays
give_back_arrays()
for _ in range(200):
    numpy.ones(1 << 18)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc" or not sys.platform.startswith("linux"),
    reason="other C libraries are left as they are",
)
def test_smaller_arrays_are_not_asked_of_the_system_again() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _ONE_AFTER_THE_OTHER], capture_output=True, text=True, check=True
    )
    assert int(told.stdout) < 50_000  # pages; 200 arrays have 102,400


_TWICE = """
import gc
from msprobe_builder.base.memory import leave_modules_alone
leave_modules_alone()
first = gc.get_freeze_count()
kept = [[] for _ in range(1000)]
leave_modules_alone()
print(first > 1000, gc.get_freeze_count() <= first, gc.isenabled())
"""


def test_garbage_is_looked_for_in_what_is_made_later() -> None:
    """However often a program builds."""
    told = subprocess.run(
        [sys.executable, "-c", _TWICE], capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["True", "True", "True"]
