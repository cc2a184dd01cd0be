"""Training on outputs of which a part is known: the concave-convex procedure around `fit`."""
