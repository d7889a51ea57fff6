"""Runs when a process of ``msprobe-run`` starts Python: waits until torch is imported.

Standard library alone, and of that as little as can be: most processes never import torch.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SETTINGS = "MSPROBE_RUN"


class _Waiting:
    """Lets every import pass; behind that of torch the training is followed.

    Libraries ask whether torch is there, long before anybody imports it: so it waits on.
    """

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != "torch":
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: Any = None if find is None else find(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """Loads torch as its own loader does, then says that it is there."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: Any) -> Any:
        return self._own.create_module(spec)

    def exec_module(self, module: Any) -> None:
        sys.meta_path[:] = [one for one in sys.meta_path if not isinstance(one, _Waiting)]
        module.__spec__.loader = module.__loader__ = self._own
        self._own.exec_module(module)
        try:
            from msprobe_collector.run.follow import follow_as_told

            follow_as_told(os.environ[SETTINGS])
        except Exception as error:
            print(
                f"msprobe-run: {sys.executable} cannot record: {type(error).__name__}: {error}."
                " Install msprobe-graph where it runs; the command goes on.",
                file=sys.stderr,
            )


def _run_the_one_behind() -> None:
    """The module of this name that Python would have found without this one."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != here]
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        sys.modules[__name__] = module = module_from_spec(spec)
        spec.loader.exec_module(module)


if os.environ.get(SETTINGS):
    sys.meta_path.insert(0, _Waiting())
_run_the_one_behind()
