"""python -m experiments.constraint_counts."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("constraint_counts")
