"""Tests of the one-slack and the pooled solver."""
