"""Costs of alignments learned by `PairAligner`."""

import jaxstruct as js
from experiments.first_results.data import LETTERS, aligned

train, test = aligned()
aligner = js.estimators.PairAligner(C=0.1 * len(train), letters=LETTERS)
print(aligner.fit(train, train).score(test, test))
