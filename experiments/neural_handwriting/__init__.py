"""Handwritten words, read by a small convolutional network under a chain."""
