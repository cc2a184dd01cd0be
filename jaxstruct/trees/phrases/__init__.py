"""Phrase trees in numbers: normal form, grammars, integers, evaluation."""
