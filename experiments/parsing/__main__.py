"""python -m experiments.parsing."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("parsing")
