"""Where msprobe keeps what is of no framework."""
