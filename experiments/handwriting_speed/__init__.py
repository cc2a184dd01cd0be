"""Time and oracle calls of training on handwritten words."""
