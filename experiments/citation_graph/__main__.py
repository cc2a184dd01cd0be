"""python -m experiments.citation_graph."""

from experiments.lib.start import start

if __name__ == "__main__":
    start("citation_graph")
