"""A package msprobe for processes of ``msprobe-run --as-msprobe``; nobody else finds it."""
