"""How often machines are right where they say how sure they are."""
