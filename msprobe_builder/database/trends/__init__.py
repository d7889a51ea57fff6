"""Databases of trends, ``.trend.db``: statistics by target, rank and step."""
