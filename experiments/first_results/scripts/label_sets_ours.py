"""Sets of labels by `MultiLabelClassifier`."""

import jaxstruct as js
from experiments.first_results.data import label_sets

train, sets, test, truth = label_sets()
model = js.estimators.MultiLabelClassifier(C=0.1 * len(train))
print(model.fit(train, sets).score(test, truth))
