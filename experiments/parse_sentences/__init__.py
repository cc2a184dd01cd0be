"""Sentences of your own, parsed by a trained grammar."""
