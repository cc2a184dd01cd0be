"""One working set for all examples, solved by its joint dual."""
