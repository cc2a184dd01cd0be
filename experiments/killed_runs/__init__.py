"""Trainings that are killed at random moments and resumed."""
