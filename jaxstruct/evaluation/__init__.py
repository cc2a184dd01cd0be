"""Measures of predictions, and whether two systems differ."""
