"""The one compiled part, which goes over a tensor once; ``python scripts/compiled.py`` makes it.

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

FOLDER = Path("msprobe_collector/one_pass")
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
FLAGS += ["-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wno-psabi", "-g0"]


def add() -> None:
    """Let what setuptools builds from now on have the module, where it is wanted."""
    # Its vectors are those of GCC and Clang, which other compilers do not have.
    if os.environ.get("MSPROBE_COMPILED") == "0" or sys.platform == "win32":
        return
    before: Any = Distribution.__init__

    def begin(self: Any, *arguments: Any, **keywords: Any) -> None:
        before(self, *arguments, **keywords)
        self.ext_modules = [module()]

    changed: Any = Distribution
    changed.__init__ = begin


def module() -> Extension:
    """What is compiled, for all Pythons from the one on that setup.cfg names."""
    return Extension(
        "msprobe_collector.one_pass._compiled",
        [str(FOLDER / "module.cpp")],
        depends=sorted(map(str, FOLDER.glob("*.h"))),
        extra_compile_args=FLAGS,
        language="c++",
        optional=True,
        py_limited_api=True,
    )


if __name__ == "__main__":
    add()
    setup(script_args=["--quiet", "build_ext", "--inplace"])
