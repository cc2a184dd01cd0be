"""Pairs a second of the alignment oracles."""
