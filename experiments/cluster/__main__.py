"""python -m experiments.cluster."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("cluster")
