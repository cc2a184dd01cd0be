"""Algorithm 1 as printed, the measure of the others."""
