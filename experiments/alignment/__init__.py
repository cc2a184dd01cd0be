"""Table 4 and figure 2: finding the homologue by learned local alignment."""
