"""What is checked before anything compiles, and tried at the first examples."""
