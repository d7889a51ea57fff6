"""Not msprobe: its names, of ``msprobe_collector.compat``, in processes of ``--as-msprobe``."""

from msprobe_checks.gradients.comparator import GradComparator

__all__ = ["GradComparator"]
