"""Trees of sentences by `TreeParser`."""

import jaxstruct as js
from experiments.first_results.data import treebank

train, test = treebank()
parser = js.estimators.TreeParser(C=len(train), read_words=True)
print(parser.fit(train, train).score(test, test))
