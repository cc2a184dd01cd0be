"""python -m experiments.bulk_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("bulk_speed")
