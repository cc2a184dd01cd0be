"""Best matchings, as functions of potentials."""
