"""python -m experiments.handwriting_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("handwriting_speed")
