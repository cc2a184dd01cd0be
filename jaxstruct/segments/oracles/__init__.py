"""Semi-Markov dynamic programs over the potentials of ONE sequence."""
