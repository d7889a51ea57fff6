"""Typed readers of a database: for the plugin, exports, reports and everything else."""
