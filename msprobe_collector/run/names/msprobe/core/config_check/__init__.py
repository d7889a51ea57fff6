"""The name of ``msprobe.core.config_check``."""

from msprobe_collector.configuration.checker import ConfigChecker

__all__ = ["ConfigChecker"]
