"""python -m experiments.string_mapping."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("string_mapping")
