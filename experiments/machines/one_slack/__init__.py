"""One plane a round for all examples together."""
