"""Algorithm 3 as printed: for its number of constraints, and the propositions about it."""
