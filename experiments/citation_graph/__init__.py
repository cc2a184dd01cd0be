"""Collective classification: papers with words and citations, drawn, and their topics."""
