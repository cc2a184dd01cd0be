"""What the thesis leaves open (5.2): upper bounds, sparseness, which constraint to take."""
