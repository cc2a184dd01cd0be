"""python -m experiments.handwriting."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("handwriting")
