"""python -m experiments.large_data."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("large_data")
