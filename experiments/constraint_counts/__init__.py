"""How many constraints algorithm 3 adds: as printed, by `fit`, and in the papers."""
