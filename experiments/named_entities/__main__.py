"""python -m experiments.named_entities."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("named_entities")
