"""Record a training that is not edited: ``msprobe-run -- COMMAND``, and one line for a script.

``command`` starts the processes, ``start/sitecustomize.py`` waits in each of them for torch, and
``follow`` then sees where steps end and which modules are the model.
"""
