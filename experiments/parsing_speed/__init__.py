"""Time a sentence of the oracles of trees."""
