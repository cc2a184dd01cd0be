"""python -m experiments.label_graphs."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("label_graphs")
