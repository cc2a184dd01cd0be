"""Regression on chains: support vector regression whose neighbours are predicted together."""
