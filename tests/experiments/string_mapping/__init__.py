"""Tests of experiments.string_mapping."""
