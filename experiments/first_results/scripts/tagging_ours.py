"""Labels of tokens by `SequenceLabeller`."""

import jaxstruct as js
from experiments.first_results.data import tagged

train, labels, test, truth = tagged()
tagger = js.estimators.SequenceLabeller(C=0.1 * len(train))
print(tagger.fit(train, labels).score(test, truth))
