"""python -m experiments.alignment."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("alignment")
