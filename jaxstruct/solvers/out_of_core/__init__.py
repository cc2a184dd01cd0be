"""Blocks of the examples one after another, planes at rest in memory or files."""
