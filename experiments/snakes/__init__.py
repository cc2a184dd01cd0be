"""Snakes in small grids: labels of cells where edge features decide."""
