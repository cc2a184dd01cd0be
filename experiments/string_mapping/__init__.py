"""Strings to strings, the thesis's table 4.5."""
