"""python -m experiments.reranking."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("reranking")
