"""Dynamic programs on alignment potentials; they know no weights."""
