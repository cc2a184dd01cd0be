"""How fast `label_files` is, and that its memory does not grow with its files."""
