"""python -m experiments.calibration."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("calibration")
