"""python -m experiments.graph_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("graph_speed")
