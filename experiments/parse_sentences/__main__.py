"""python -m experiments.parse_sentences."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("parse_sentences")
