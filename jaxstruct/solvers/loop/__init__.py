"""What goes on around the rounds of any solver: progress, trace, status, signals."""
