"""python -m experiments.neural_handwriting."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("neural_handwriting")
