"""python -m experiments.decoding_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("decoding_speed")
