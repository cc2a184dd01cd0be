"""python -m experiments.multiclass."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("multiclass")
