"""Trainings on more examples than memory holds: how time and memory grow."""
