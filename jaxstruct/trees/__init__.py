"""Trees of phrases: bracketed text, cleaning, Chomsky normal form, grammars, evaluation."""
