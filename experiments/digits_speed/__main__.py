"""python -m experiments.digits_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("digits_speed")
