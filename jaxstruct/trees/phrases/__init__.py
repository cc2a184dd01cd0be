"""Phrase trees as text and as integers: bracketing, normal form, grammars, evaluation."""
