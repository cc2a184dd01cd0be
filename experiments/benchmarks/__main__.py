"""python -m experiments.benchmarks."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("benchmarks")
