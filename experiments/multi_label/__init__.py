"""Sets of labels: exact and inexact oracles in training and in prediction."""
