"""Machines that tables of the papers need, and users do not."""
