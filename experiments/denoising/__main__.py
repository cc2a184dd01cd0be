"""python -m experiments.denoising."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("denoising")
