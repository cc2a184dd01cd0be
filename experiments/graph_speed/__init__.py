"""Message updates a second of belief propagation, and seconds of bounds, beside other programs."""
