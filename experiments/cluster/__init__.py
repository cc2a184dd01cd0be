"""One training in several processes, on one machine or on many."""
