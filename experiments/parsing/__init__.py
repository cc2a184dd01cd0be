"""Table 5: parsing with a learned weighted context-free grammar."""
