"""Working sets of each example: rounds of oracle passes, sweeps and Newton steps."""
