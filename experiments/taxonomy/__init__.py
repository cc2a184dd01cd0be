"""Table 1: classification with a taxonomy."""
