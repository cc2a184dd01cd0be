"""python -m experiments.clinc150_whole."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("clinc150_whole")
