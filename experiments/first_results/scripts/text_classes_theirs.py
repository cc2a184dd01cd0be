"""Classes of texts by scikit-learn's LinearSVC."""

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from experiments.first_results.data import texts

train, labels, test, truth = texts()
model = make_pipeline(TfidfVectorizer(), LinearSVC())
print(model.fit(train, labels).score(test, truth))
