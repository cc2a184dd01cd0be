"""python -m experiments.parts_of_speech."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("parts_of_speech")
