"""The one part of the distribution that is compiled; setup.cfg describes the rest.

It is optional: where nothing can be compiled, or with MSPROBE_COMPILED=0 in the environment,
everything is installed without it and works.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

FOLDER = "msprobe_collector/one_pass"
FLAGS = ["-std=c++17", "-O3", "-fno-math-errno", "-fno-trapping-math", "-ffp-contract=fast"]
FLAGS += ["-fno-exceptions", "-fno-rtti", "-fvisibility=hidden", "-Wno-psabi", "-g0"]
# A wheel serves all Pythons from this one on.
OLDEST = "cp310"


def compiled() -> dict[str, Any]:
    """What setuptools is told of the compiled module; nothing where there is to be none.

    Its vectors are those of GCC and Clang, which other compilers do not have.
    """
    if os.environ.get("MSPROBE_COMPILED") == "0" or sys.platform == "win32":
        return {}
    module = Extension(
        "msprobe_collector.one_pass._compiled",
        [f"{FOLDER}/module.cpp"],
        depends=sorted(map(str, Path(FOLDER).glob("*.h"))),
        extra_compile_args=FLAGS,
        language="c++",
        optional=True,
        py_limited_api=True,
    )
    return {
        "ext_modules": [module],
        "options": {"bdist_wheel": {"py_limited_api": OLDEST}},
    }


setup(**compiled())
