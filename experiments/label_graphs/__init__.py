"""Graphs of your own, labelled by what is learned from others."""
