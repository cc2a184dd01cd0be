"""python -m experiments.make_store."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("make_store")
