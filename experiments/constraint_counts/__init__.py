"""How many constraints algorithm 3 adds: by the letter, by `fit`, and in the papers."""
