"""CLINC150 for `experiments.class_descriptions`: queries as vectors, and the names of classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxstruct.core.labels import encode, fit_codec
from jaxstruct.data.clinc150 import load_clinc150
from jaxstruct.multiclass.taxonomy import Taxonomy, taxonomy_from_paths

LATENT = 100
"""Dimensions of the latent semantic space."""


class Part(NamedTuple):
    """Queries: `x` [n, d] tf-idf of unit length (SciPy), `y` [n] classes."""

    x: Any
    y: np.ndarray


class Queries(NamedTuple):
    """The corpus.

    Fields:
      train, held_out, test: its three parts. names: [k] words of each class, "order checks".
      name_rows: [k, d] the names as if they were queries. latent_names: [k, r] where a singular
        value decomposition of the training queries, without their labels, places them.
      taxonomy: the classes under their domains.
    """

    train: Part
    held_out: Part
    test: Part
    names: tuple[str, ...]
    name_rows: Any
    latent_names: np.ndarray
    taxonomy: Taxonomy


def load_queries(folder: Path | None = None) -> Queries:
    """CLINC150; words and their weights from the texts of the training part, not from its labels.

    Args:
      folder: with the corpus's files; None: where `jaxstruct.data.locate` finds it.
    """
    from sklearn.decomposition import TruncatedSVD
    from sklearn.feature_extraction.text import TfidfVectorizer

    corpus = load_clinc150(folder)
    codec = fit_codec(list(corpus.domains))
    intents = [str(each) for each in codec.classes]
    names = tuple(intent.replace("_", " ") for intent in intents)
    taxonomy = taxonomy_from_paths({each: (f"domain {corpus.domains[each]}",) for each in intents})
    number: Any = np.float32  # its annotation knows float64 alone
    vectoriser = TfidfVectorizer(sublinear_tf=True, dtype=number).fit(corpus.train.texts)

    def part(queries: Any) -> Part:
        return Part(vectoriser.transform(queries.texts), encode(codec, list(queries.labels)))

    train, held_out, test = map(part, (corpus.train, corpus.validation, corpus.test))
    rows: Any = vectoriser.transform(names)
    space = TruncatedSVD(min(LATENT, rows.shape[1] - 1), random_state=0).fit(train.x)
    latent = np.asarray(space.transform(rows), np.float64)
    return Queries(train, held_out, test, names, rows, latent, taxonomy)
