"""Scripts that reproduce tables and figures, one a script, and what they share."""
