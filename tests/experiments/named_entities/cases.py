"""Sentences of made-up news, and the options of short trainings on them."""

from __future__ import annotations

import numpy as np

from experiments.tasks.news import kernel_corpus, label_names, sparse_corpus
from experiments.tasks.token_features import FeatureOptions, fit_token_index
from jaxstruct.data.conll import Sentence

NAMES = (("Ana", "B-PER"), ("Luis", "B-PER"), ("Roma", "B-LOC"), ("Lima", "B-LOC"))
PLAIN = ("va", "y", "ve", "oye", "come", "hoy", ".", "12")
FEATURES = FeatureOptions(affixes=1, window=0)
CHEAP = {
    "sentences": 16, "folds": 2, "C": ("1",), "table_3_C": ("1",), "inner_folds": 0,
    "smoothing": ("1",), "epochs": ("2",),
    "affixes": 1, "window": 0, "capacity": 32, "variant": "subspace", "max_passes": 30,
    "compilation_cache": False, "progress": False, "epsilon": 0.1,
    "methods": ("commonest", "hmm", "crf", "perceptron", "svm"),
}  # fmt: skip
"""8 training sentences of one padded length and set of words, so that all share their programs."""


def news(count, seed=0):
    """Sentences of 2 or 7 words, all words among the first 8; after a name comes Real or not."""
    random, sentences = np.random.default_rng(seed), []
    words = [*((word, "O") for word in PLAIN), *NAMES] * count
    for number in range(count):
        pairs = []
        while len(pairs) < (7 if number % 2 else 2):
            pairs.append(words.pop(0) if number < 8 else words[random.integers(12)])
            if pairs[-1][1] != "O" and random.random() < 0.5:
                pairs.append(("Real", f"I-{pairs[-1][1][2:]}"))
        spoken, labels = zip(*pairs[: 7 if number % 2 else 2], strict=True)
        sentences.append(Sentence(spoken, (spoken,), labels))
    return tuple(sentences)


def corpora(sentences):
    index, names = fit_token_index(sentences, FEATURES), label_names(sentences)
    shared = (sentences, names, index)
    return sparse_corpus(*shared, FEATURES), kernel_corpus(*shared, False, FEATURES)
