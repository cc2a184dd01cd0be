"""Handwritten words, read letter by letter by a chain."""
