"""Solvers stand beside the output types: they see a problem, never a structure."""
