"""Machines of the papers' tables that the package does without; commands compare with them."""
