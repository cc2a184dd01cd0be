"""Classes of texts by `StructuralClassifier`."""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

import jaxstruct as js
from experiments.first_results.data import texts

train, labels, test, truth = texts()
model = make_pipeline(TfidfVectorizer(), js.estimators.StructuralClassifier(C=len(train)))
print(model.fit(train, labels).score(test, truth))
