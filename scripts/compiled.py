"""What is compiled: one pass over a tensor, and records of dumps; this program makes both.

It is optional: where nothing can be compiled, or with MSPROBE_COMPILED=0 in the environment,
everything is built without it, and works.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.dist import Distribution

SOURCES = {
    "msprobe_collector.one_pass._compiled": Path("msprobe_collector/one_pass/module.cpp"),
    "msprobe_builder.dump._compiled": Path("msprobe_builder/dump/records_apart.cpp"),
}
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
FLAGS += ["-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wno-psabi", "-g0"]


def add() -> None:
    """Let what setuptools builds from now on have the modules, where they are wanted."""
    # Its vectors are those of GCC and Clang, which other compilers do not have.
    if os.environ.get("MSPROBE_COMPILED") == "0" or sys.platform == "win32":
        return
    before: Any = Distribution.__init__

    def begin(self: Any, *arguments: Any, **keywords: Any) -> None:
        before(self, *arguments, **keywords)
        self.ext_modules = [*map(module, SOURCES)]

    changed: Any = Distribution
    changed.__init__ = begin


def module(name: str) -> Extension:
    """What is compiled, for all Pythons from the one on that setup.cfg names."""
    return Extension(
        name,
        [str(SOURCES[name])],
        depends=sorted(map(str, SOURCES[name].parent.glob("*.h"))),
        extra_compile_args=FLAGS,
        language="c++",
        optional=True,
        py_limited_api=True,
    )


if __name__ == "__main__":
    add()
    setup(script_args=["--quiet", "build_ext", "--inplace"])
