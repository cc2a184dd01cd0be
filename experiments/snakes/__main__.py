"""python -m experiments.snakes."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("snakes")
