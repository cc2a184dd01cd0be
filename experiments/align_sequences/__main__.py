"""python -m experiments.align_sequences."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("align_sequences")
