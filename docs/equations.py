"""Equations of docstrings as LaTeX."""

from __future__ import annotations


def translated(block: str) -> list[str] | None:
    """None as yet."""
    return None
