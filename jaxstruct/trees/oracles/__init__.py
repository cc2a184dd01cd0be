"""Dynamic programs on span potentials; they know no weights."""
