"""Best rankings and best labels of a sample, of their potentials alone."""
