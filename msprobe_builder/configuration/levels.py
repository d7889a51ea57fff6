"""How bad a difference of two configurations is."""

PASS, WARNING, ERROR = "pass", "warning", "error"
