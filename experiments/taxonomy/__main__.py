"""python -m experiments.taxonomy."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("taxonomy")
