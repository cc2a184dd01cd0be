"""Floor 0: what every wing shares."""
