"""What every output type shares."""
