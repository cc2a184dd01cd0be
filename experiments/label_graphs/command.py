"""Label the nodes of your own graphs, by what is learned from graphs whose labels are known.

    python -m experiments.label_graphs --train=known.npz --test=new.npz
    python -m experiments.label_graphs --train=nodes.csv --train_edges=edges.csv \\
        --test=new_nodes.csv --test_edges=new_edges.csv --c_over_n=1 --inference=elimination

An NPZ file holds the graphs one after the other:

  nodes          numbers [N, d], features of all nodes
  edges          integers [M, 2], both ends of all edges, counted from 0 within their graph
  labels         text or integers [N]; training needs them, new graphs may have them
  edge_features  numbers [M, p], may be missing; the first end is distinguished from the second
  kinds          text or integers [M], may be missing; each kind has a table of label pairs
  node_offsets   integers [n + 1] from 0 to N: graph i has the nodes from its i-th on up to the next
  edge_offsets   integers [n + 1] from 0 to M, of the edges; without both the file is one graph

CSV files are two, each with a line of column names. That of nodes has a column "node" (the name of
the node) and may have "graph" and "label"; that of edges has "first" and "second" (names of nodes),
"graph" where the other has it, and may have "kind". All other columns are features, numbers in the
same order in all files. Files end in .npz or .csv; several are separated by commas.

The table has errors and the certificate; labels go to OUTPUT/predictions.csv,
those of the new graphs, or of the training graphs where there are none, the weights to
OUTPUT/label_graphs_weights.npz.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

from experiments.label_graphs.data import read_graphs
from experiments.label_graphs.training import Labelled, Options, Part, train_and_label
from experiments.lib import common
from experiments.lib.report import rows_table
from jaxstruct.core.files import write_file
from jaxstruct.graphs.decoding import BOUNDED, EXACT
from jaxstruct.solvers.checkpoints.run_state import save_weights

COLUMNS = {
    "graphs of": "part", "graphs": "graphs", "nodes": "nodes", "edges": "edges",
    ("wrong %", "nodes"): "wrong_nodes", ("wrong %", "graphs"): "wrong_graphs",
}  # fmt: skip
PROOFS = {
    **dict.fromkeys(EXACT, "exact: the oracle finds the most violated output"),
    **dict.fromkeys(BOUNDED, "bounded: P counts what the oracle could not rule out"),
}
NO_PROOF = "none: the oracle is cheap, and nothing bounds what it misses"


def errors(part: Part) -> dict[str, float | None]:
    """Nodes and graphs labelled wrong in %, None where their labels are not known."""
    if any(one.labels is None for one in part.graphs):
        return {"wrong_nodes": None, "wrong_graphs": None}
    wrong = [
        own.astype(np.str_) != np.asarray(one.labels).astype(np.str_)
        for own, one in zip(part.found, part.graphs, strict=True)
    ]
    return {
        "wrong_nodes": 100 * float(np.mean(np.concatenate(wrong))),
        "wrong_graphs": 100 * float(np.mean([own.any() for own in wrong])),
    }


def _row(name: str, part: Part) -> dict[str, Any]:
    return {
        "part": name, "graphs": len(part.graphs),
        "nodes": sum(len(one.nodes) for one in part.graphs),
        "edges": sum(len(one.edges) for one in part.graphs),
    } | errors(part)  # fmt: skip


def predictions_text(part: Part) -> str:
    """CSV: graph, node, label as predicted, and the label of the file where it has one."""
    text = io.StringIO()
    out = csv.writer(text, lineterminator="\n")
    given = part.graphs[0].labels is not None
    out.writerow(["graph", "node", "label", *(["given"] if given else [])])
    for one, found in zip(part.graphs, part.found, strict=True):
        labels = [] if one.labels is None else [one.labels.tolist()]
        for row in zip(one.node_names, found.tolist(), *labels, strict=True):
            out.writerow([one.name, *row])
    return text.getvalue()


def graphs_outcome(options: Options, labelled: Labelled) -> common.Outcome:
    """Print the table of a training; write it, the predictions and the weights."""
    solution, folder = labelled.solution, Path(options.output)
    parts = {"train": labelled.train, "test": labelled.test}
    rows = [_row(name, part) for name, part in parts.items() if part.graphs]
    last = labelled.test if labelled.test.graphs else labelled.train
    path = write_file(folder / "predictions.csv", predictions_text(last))
    weights = folder / "label_graphs_weights.npz"
    save_weights(weights, solution.weights)
    proof = PROOFS.get(options.inference, NO_PROOF)
    notes = [
        f"{options.formulation}, loss {options.loss}, C' = C / n = {options.c_over_n:g}, "
        f"{len(labelled.labels.classes)} labels, inference {options.inference}; "
        f"{solution.status.name} after {labelled.seconds:.1f} s "
        f"({labelled.compile_seconds:.1f} s of it compiling): "
        f"{solution.message}.",
        f"Certificate {proof}. P = {solution.primal:.6g}, as found "
        f"{solution.certificate.primal_found:.6g}, D = {solution.dual:.6g}, asked for a relative "
        f"gap of {options.tolerance:g}.",
        f"Labels written to {path} ({labelled.labelling_seconds:.1f} s with compiling), weights to "
        f"{weights}.",
    ]
    known = set(map(str, labelled.labels.classes))
    unseen = sum(str(value) not in known for one in labelled.test.graphs if one.labels is not None
                 for value in one.labels.tolist())  # fmt: skip
    if unseen:
        notes.append(f"{unseen} nodes of the test graphs have labels that no training graph has.")
    table = rows_table("Labelled graphs", COLUMNS, rows, notes)
    numbers = {
        "rows": rows, "status": solution.status, "primal": solution.primal,
        "primal_found": solution.certificate.primal_found, "dual": solution.dual,
        "proof": proof.split(":")[0], "passes": solution.statistics.passes,
        "oracle_calls": solution.statistics.oracle_calls, "seconds": labelled.seconds,
        "compile_seconds": labelled.compile_seconds,
        "labels": labelled.labels.classes,
        "kinds": labelled.kinds.classes if labelled.kinds else None,
    }  # fmt: skip
    outcome = common.save(options, table, numbers)
    return outcome._replace(files=(*outcome.files, path, weights))


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
