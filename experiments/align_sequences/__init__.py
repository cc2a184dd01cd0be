"""Sequences of your own, aligned with learned costs."""
