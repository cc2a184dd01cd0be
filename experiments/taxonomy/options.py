"""The options of `experiments.taxonomy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag
from experiments.taxonomy.comparison import NODE_WEIGHTS

DATA = ("clinc150", "wipo_alpha_d", "wipo_xml", "clus", "synthetic")
DELTA_FORMULATIONS = ("svm1_slack", "svm1_margin", "svm2_slack", "svm2_margin")


class Options(NamedTuple):
    """The flags of this command."""

    data: Annotated[str, flag("Which documents; see taxonomy.documents.", DATA)] = "clinc150"
    path: Annotated[str | None, flag("Folder of XML files (wipo_xml) or training file (clus).")] = (
        None
    )
    test_path: Annotated[
        str | None, flag("Test file (clus); without it, tested on what was not drawn.")
    ] = None
    section: Annotated[str, flag("Section of the classification (wipo_xml).")] = "D"
    per_class: Annotated[
        Sequence[str],
        flag(
            "Training examples drawn of each class, a list; 0 takes the whole training part.",
            each=int,
            least=0,
            some=True,
        ),
    ] = ("4", "2")
    repeats: Annotated[int, flag("Training sets drawn for each size.", least=1)] = 5
    folds: Annotated[
        Sequence[str],
        flag(
            "Cross-validation in place of repeats: how many folds for each entry of per_class (3,5 "
            "in the paper). A fold is tested, the examples are drawn from the others. Empty: none.",
            each=int,
            least=2,
        ),
    ] = ()
    formulation: Annotated[
        str,
        flag(
            "Of the Δ columns; the 0/1 columns use svm1 or svm2 without re-scaling.",
            DELTA_FORMULATIONS,
        ),
    ] = "svm2_margin"
    node_weights: Annotated[
        str,
        flag(
            "Weights beta_z of the taxonomy's nodes (4.19): equal, doubled at each level down "
            "(deeper) or halved (higher). Each Lambda(y) is then scaled to length 1.",
            NODE_WEIGHTS,
        ),
    ] = "equal"
    grid: Annotated[
        Sequence[str],
        flag("Values of C' = C / n to choose from, rising.", each=float, above=0, some=True),
    ] = (
        "0.1",
        "1",
        "10",
        "100",
    )
    inner_folds: Annotated[
        int,
        flag(
            "Halves of the training set that are held out in turn to choose C': 1 or 2.",
            least=1,
            most=2,
        ),
    ] = 2
    selection_tolerance: Annotated[float, flag("Relative gap while choosing C'.", above=0)] = 1e-2
    tolerance: Annotated[float, flag("Relative gap of the machines reported.", above=0)] = 1e-3
    variant: fields.Variant = "auto"
    working_sets: fields.WorkingSets = "auto"
    capacity: fields.Capacity = 0
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = True
    progress: fields.ShowProgress = None
