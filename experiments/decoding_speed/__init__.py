"""Sequences a second of the chain oracles."""
