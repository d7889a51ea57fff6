"""``python -m msprobe_builder`` is the command ``msprobe-build``."""

from msprobe_builder.command.main import main

raise SystemExit(main())
