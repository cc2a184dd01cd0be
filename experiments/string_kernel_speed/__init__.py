"""Kernel matrices of strings: time and memory, beside plain Python."""
