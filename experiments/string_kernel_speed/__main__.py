"""python -m experiments.string_kernel_speed."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("string_kernel_speed")
