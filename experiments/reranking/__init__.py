"""The k best of a base model, re-ranked with features of whole outputs."""
