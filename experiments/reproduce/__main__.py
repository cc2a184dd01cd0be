"""python -m experiments.reproduce."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("reproduce")
