"""Commands that reproduce tables and figures, a folder each, and what they share in `lib`."""
