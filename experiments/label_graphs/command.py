"""Label the nodes of your own graphs, by what is learned from graphs whose labels are known.

    python -m experiments.label_graphs --train=known.npz --test=new.npz
    python -m experiments.label_graphs --train=nodes.csv --train_edges=edges.csv \\
        --test=new_nodes.csv --test_edges=new_edges.csv --c_over_n=1 --inference=elimination

An NPZ file holds the graphs one after the other:

  nodes          numbers [N, d], features of all nodes
  edges          integers [M, 2], both ends of all edges, counted from 0 within their graph
  labels         text or integers [N]; training needs them, new graphs may have them
  edge_features  numbers [M, p], may be missing; the first end is told apart from the second
  kinds          text or integers [M], may be missing; each kind has a table of label pairs
  node_offsets   integers [n + 1] from 0 to N: graph i has the nodes from its i-th on up to the next
  edge_offsets   integers [n + 1] from 0 to M, of the edges; without both the file is one graph

CSV files are two, each with a line of column names. That of nodes has a column "node" (the name of
the node) and may have "graph" and "label"; that of edges has "first" and "second" (names of nodes),
"graph" where the other has it, and may have "kind". All other columns are features, numbers in the
same order in all files. Files end in .npz or .csv; several are separated by commas.

The table tells of errors and of what the certificate proves; labels go to OUTPUT/predictions.csv,
those of the new graphs, or of the training graphs where there are none, the weights to
OUTPUT/label_graphs_weights.npz.
"""

from __future__ import annotations

from experiments.label_graphs.data import read_graphs
from experiments.label_graphs.options import Options
from experiments.label_graphs.report import graphs_outcome
from experiments.label_graphs.training import train_and_label
from experiments.lib import common


def run(options: Options) -> common.Outcome:
    """Train, label, print the table and write all files.

    Raises:
      ValueError: an option that does not fit. FileNotFoundError: a file is missing.
      MalformedFile: a file is not as the module says; the message names the place.
    """
    dtype = common.prepare(options)
    if not options.train:
        raise ValueError("train: name a file of graphs to learn from")
    known = read_graphs(options.train, options.train_edges, ("train", "train_edges"))
    new = read_graphs(options.test, options.test_edges, ("test", "test_edges"))
    labelled = train_and_label(options, known, new, dtype)
    return graphs_outcome(options, labelled)
