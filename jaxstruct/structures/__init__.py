"""Floor 2: structures, each one file that gathers potentials, parts and losses in a problem."""
