"""The name of ``msprobe.core.config_check``."""

from typing import Any

__all__ = ["ConfigChecker"]


def _of(framework: str) -> Any:
    if framework == "mindspore":
        from msprobe_collector.mindspore.configuration import ConfigChecker
    else:
        from msprobe_collector.configuration.checker import ConfigChecker  # type: ignore[assignment]
    return ConfigChecker


class ConfigChecker:
    """That of the framework which ``fmk`` names."""

    def __new__(
        cls,
        model: Any = None,
        shell_path: Any = None,
        output_zip_path: Any = "./config_check_pack.zip",
        fmk: str = "pytorch",
        **more: Any,
    ) -> Any:
        """Collect; see docs/configuration.md."""
        return _of(fmk)(model, shell_path, output_zip_path, fmk, **more)

    @staticmethod
    def apply_patches(fmk: str = "pytorch") -> None:
        """Begin to count calls that draw."""
        _of(fmk).apply_patches(fmk)
