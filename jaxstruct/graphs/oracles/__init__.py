"""Inference on the potentials of graphs, exact, with a bound, and approximate: no weights."""
