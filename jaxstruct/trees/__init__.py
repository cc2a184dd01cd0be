"""Phrase trees of weighted context-free grammars."""
