"""python -m experiments.label_files."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("label_files")
