"""python -m experiments.alignment_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("alignment_speed")
