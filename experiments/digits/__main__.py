"""python -m experiments.digits."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("digits")
