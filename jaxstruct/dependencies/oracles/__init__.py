"""Dynamic programs and spanning trees over potentials and lengths: no weights."""
