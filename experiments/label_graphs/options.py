"""The options of `experiments.label_graphs`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag
from jaxstruct.graphs.decoding import NAMES

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
