"""Solvers stand beside the wings: they see a problem, never a structure."""
