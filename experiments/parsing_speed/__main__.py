"""python -m experiments.parsing_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("parsing_speed")
