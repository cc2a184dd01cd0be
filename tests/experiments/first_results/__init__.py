"""Tests of experiments.string_kernel_speed."""
