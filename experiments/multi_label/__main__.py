"""python -m experiments.multi_label."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("multi_label")
