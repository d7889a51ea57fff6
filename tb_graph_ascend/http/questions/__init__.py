"""The questions that a file answers: one module per route, found by its name.

Each has ``question(request, revision)``, which checks the parameters and gives what makes the
answer from the open file. Nothing is imported here: TensorBoard asks for the names at start-up.
"""

from __future__ import annotations

import pkgutil

NAMES = tuple(sorted(module.name for module in pkgutil.iter_modules(__path__)))
