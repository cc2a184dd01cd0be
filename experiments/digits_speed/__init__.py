"""Time to a suboptimality on the digits, beside liblinear."""
