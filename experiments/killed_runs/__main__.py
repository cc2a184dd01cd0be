"""python -m experiments.killed_runs."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("killed_runs")
