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

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.label_graphs.data import read_graphs
from experiments.label_graphs.report import graphs_outcome
from experiments.label_graphs.training import train_and_label
from experiments.lib import common, fields
from experiments.lib.options import flag
from jaxstruct.graphs.inference import NAMES

FORMULATIONS = ("svm1_margin", "svm1_slack", "svm2_slack")
"""Those that additive losses serve by every oracle."""
LOSSES = ("hamming", "normalised_hamming")


class Options(NamedTuple):
    """The flags of this command."""

    train: Annotated[
        Sequence[str], flag("Graphs to learn from: NPZ files, or CSV files of nodes.")
    ] = ()
    train_edges: Annotated[
        Sequence[str], flag("CSV files of their edges, one for each CSV file of nodes.")
    ] = ()
    test: Annotated[Sequence[str], flag("Graphs to label, as --train; labels may be missing.")] = ()
    test_edges: Annotated[Sequence[str], flag("CSV files of their edges.")] = ()
    formulation: Annotated[
        str, flag("Margin re-scaling first; see the README's table.", FORMULATIONS)
    ] = "svm1_margin"
    c_over_n: Annotated[float, flag("C' = C / n, n training graphs.", above=0)] = 0.1
    loss: Annotated[
        str, flag("What a wrong node costs in training: 1, or its share of the graph.", LOSSES)
    ] = "hamming"
    inference: Annotated[
        str,
        flag(
            "reweighted: any graph, with a bound; elimination: exact, forests and small "
            "treewidth; enumeration: exact, a few nodes; modes, propagation: cheap, without a "
            "proof.",
            NAMES,
        ),
    ] = "reweighted"
    passes: Annotated[int, flag("Of message passing, at most.", least=1)] = 100
    symmetric: Annotated[bool, flag("Whether an edge scores the same either way round.")] = False
    constant: Annotated[bool, flag("Whether every node has a further feature of 1.")] = True
    tolerance: fields.Tolerance = 1e-2
    max_passes: Annotated[int, flag("Rounds of the training at most.", least=1)] = 500
    variant: fields.Variant = "auto"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None


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
