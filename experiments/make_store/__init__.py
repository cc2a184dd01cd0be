"""Training sets of any size as stores: memory-mapped files, made of text in bounded memory."""
