"""Floor 3: solvers; they see a problem, never a structure."""
