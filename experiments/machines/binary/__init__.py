"""Binary machines with a bias (thesis 2.2 to 2.5), many of them at once."""

from experiments.machines.binary.machines import (
    BinaryMachines,
    SupportVectors,
    decision_values,
    fit_binary,
    support_vectors,
)

__all__ = [
    "BinaryMachines",
    "SupportVectors",
    "decision_values",
    "fit_binary",
    "support_vectors",
]
