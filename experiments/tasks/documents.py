"""Documents with classes in a taxonomy, from several sources, in one form for `taxonomy`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from experiments.corpora.clinc150 import load_clinc150
from experiments.corpora.wipo import ipc_ancestors, load_wipo_arrays, load_wipo_xml
from jaxstruct.core.labels import encode, fit_codec
from jaxstruct.core.ragged import Ragged
from jaxstruct.core.types import PyTree, SparseFeatures
from jaxstruct.data.svmlight import CsrRows, from_scipy
from jaxstruct.multiclass.taxonomy import Taxonomy, taxonomy_from_paths


class Documents(NamedTuple):
    """Feature vectors of unit length, and their classes.

    Fields:
      title: what they are.
      inputs: numpy rows [N, d], or SparseFeatures of N ragged rows.
      labels: [N] int32, classes of the taxonomy.
      number_of_features: d.
      taxonomy: its class i is label i.
      train: positions that training sets are drawn from.
      test: positions to test on; None: whatever of `train` was not drawn.
      notes: how they were made, line by line.
      of_paper: whether the paper's table is of the same patents: section D of WIPO-alpha.
    """

    title: str
    inputs: PyTree
    labels: np.ndarray
    number_of_features: int
    taxonomy: Taxonomy
    train: np.ndarray
    test: np.ndarray | None
    notes: tuple[str, ...]
    of_paper: bool = False


def clinc150(folder: Path | None = None) -> Documents:
    """The 15,000 training and 4,500 test queries of CLINC150, 150 intents under 10 domains.

    Args:
      folder: with the corpus's files; None: where `experiments.corpora.locate` finds it.
    """
    corpus = load_clinc150(folder)
    codec = fit_codec(list(corpus.domains))
    taxonomy = taxonomy_from_paths(
        {intent: (f"domain {corpus.domains[intent]}",) for intent in map(str, codec.classes)}
    )
    train = np.arange(len(corpus.train.texts))
    rows = tf_idf([*corpus.train.texts, *corpus.test.texts], len(train))
    labels = encode(codec, [*corpus.train.labels, *corpus.test.labels])
    return Documents(
        "CLINC150 queries, 150 intents under 10 domains", _stored(rows), labels,
        rows.number_of_features, taxonomy, train, np.arange(len(train), len(labels)),
        ("tf-idf with logarithmic counts; words and weights from the texts (not the labels) of the "
         "whole training split; tested on the whole test split.",),
    )  # fmt: skip


def wipo_alpha_d(path: Path | None = None) -> Documents:
    """The 1710 patents of WIPO-alpha, section D, as 100 latent semantic dimensions.

    Args:
      path: the npz file; None: where `experiments.corpora.locate` finds it.
    """
    arrays = load_wipo_arrays(path)
    symbols = (*arrays.y_train, *arrays.y_test)
    taxonomy, labels = _ipc_classes(symbols)
    inputs = _unit_length(np.concatenate([arrays.x_train, arrays.x_test]))
    return Documents(
        f"WIPO-alpha, section D, {len(symbols)} patents, {len(taxonomy.classes)} main groups",
        inputs, labels, inputs.shape[1], taxonomy, np.arange(len(labels)), None,
        ("100 latent semantic dimensions scaled to unit length; main groups cut to two digits by "
         "the source, so fewer classes than the paper's 160; both parts pooled, tested on what "
         "was not drawn.",),
        of_paper=True,
    )  # fmt: skip


def wipo_xml(folder: Path, section: str = "D") -> Documents:
    """WIPO-alpha XML files of your own: title and claims of the patents of one section.

    Raises:
      ValueError: no patent of the section.
    """
    records = [r for r in load_wipo_xml(Path(folder)) if ipc_ancestors(r.main_symbol)[0] == section]
    if not records:
        raise ValueError(f"path: {folder} has no patent of section {section!r}; see --section")
    taxonomy, labels = _ipc_classes([record.main_symbol for record in records])
    rows = tf_idf([record.text for record in records], len(records))
    return Documents(
        f"WIPO-alpha, section {section}, {len(records)} patents, {len(taxonomy.classes)} groups",
        _stored(rows), labels, rows.number_of_features, taxonomy, np.arange(len(labels)), None,
        ("tf-idf with logarithmic counts of title and claims, its weights from all the texts; "
         "tested on what was not drawn.",),
        of_paper=section == "D",
    )  # fmt: skip


def synthetic(seed: int = 0, per_leaf: int = 30, words: int = 40) -> Documents:
    """Made-up documents: 27 classes, three under each of nine nodes, three of which share a top.

    Each node has its own distribution over 400 words; of a document's `words` words 2 in 10 come
    from its class, 3 in 10 from each of the two nodes above, the others from all words alike.
    """
    random = np.random.default_rng(seed)
    paths = {f"{a}{b}{c}": (f"{a}", f"{a}{b}") for a in "abc" for b in "abc" for c in "abc"}
    taxonomy = taxonomy_from_paths(paths)
    topics = dict(zip(taxonomy.names, random.dirichlet(np.full(400, 0.05), 39), strict=True))
    counts = np.concatenate([
        random.multinomial(words, _mixture(topics, name), per_leaf) for name in paths
    ])  # fmt: skip
    labels = np.repeat(np.arange(27, dtype=np.int32), per_leaf)
    inputs = _unit_length(np.log1p(counts).astype(np.float32))
    return Documents(
        "made-up documents, 27 classes in a tree of three levels", inputs, labels, 400, taxonomy,
        np.arange(len(labels)), None, ("words drawn at random; tested on what was not drawn.",),
    )  # fmt: skip


def tf_idf(texts: Sequence[str], fitted: int) -> CsrRows:
    """Rows (1 + log tf) idf of unit length (scikit-learn), from the first `fitted` texts' words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True, norm="l2").fit(texts[:fitted])
    return from_scipy(vectorizer.transform(texts))


def _mixture(topics: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    own = 0.2 * topics[name] + 0.3 * topics[name[:1]] + 0.3 * topics[name[:2]]
    mixed = own + 0.2 / len(own)
    return mixed / mixed.sum()


def _stored(rows: CsrRows) -> SparseFeatures:
    indices = Ragged(rows.indices, rows.indptr, rows.number_of_features)
    return SparseFeatures(indices, Ragged(rows.values, rows.indptr))


def _unit_length(matrix: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    return (matrix / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _ipc_classes(symbols: Sequence[str]) -> tuple[Taxonomy, np.ndarray]:
    """The taxonomy of the main groups that occur, and the class of each symbol."""
    paths = {path[-1]: path for path in map(ipc_ancestors, symbols)}
    codec = fit_codec(list(paths))
    labels = encode(codec, [ipc_ancestors(symbol)[-1] for symbol in symbols])
    return taxonomy_from_paths({name: paths[name] for name in map(str, codec.classes)}), labels
