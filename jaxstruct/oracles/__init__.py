"""Argmax and log-partition programs on potentials and lengths; no weights, no features."""
