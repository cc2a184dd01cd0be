"""Every table that this machine has the corpora for."""
