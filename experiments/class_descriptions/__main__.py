"""python -m experiments.class_descriptions."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("class_descriptions")
