"""python -m experiments.random_field_certificates."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("random_field_certificates")
