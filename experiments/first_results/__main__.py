"""python -m experiments.first_results."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("first_results")
