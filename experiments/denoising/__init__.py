"""Noisy grids of labels: training and inference of labelled graphs, compared."""
