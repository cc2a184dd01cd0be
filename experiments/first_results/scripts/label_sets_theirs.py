"""Sets of labels by scikit-learn's OneVsRestClassifier."""

from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from experiments.first_results.data import label_sets

train, sets, test, truth = label_sets()
model = OneVsRestClassifier(LinearSVC(C=0.1))
print(model.fit(train, sets).score(test, truth))
