"""What every room shares: door checks of sizes, lengths, numbers and choices. Numpy only."""
