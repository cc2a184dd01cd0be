"""Dynamic programs on chain potentials and lengths; they know no weights."""
