"""Estimators in scikit-learn's conventions (extra `sklearn`), one a kind of output."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "jaxstruct.estimators needs scikit-learn; install it with: pip install 'jaxstruct[sklearn]'"
    ) from error

from jaxstruct.estimators.base import StructuralEstimator
from jaxstruct.estimators.decision_regressor import DecisionRegressor
from jaxstruct.estimators.document_ranker import DocumentRanker
from jaxstruct.estimators.labellers import GraphLabeller, SegmentLabeller, SequenceLabeller
from jaxstruct.estimators.matchers import PairAligner, SetMatcher
from jaxstruct.estimators.measure_classifier import MeasureClassifier
from jaxstruct.estimators.multi_label_classifier import MultiLabelClassifier
from jaxstruct.estimators.parsers import DependencyParser, TreeParser
from jaxstruct.estimators.structural_classifier import StructuralClassifier, TaxonomyClassifier

__all__ = [
    "DecisionRegressor",
    "DependencyParser",
    "DocumentRanker",
    "GraphLabeller",
    "MeasureClassifier",
    "MultiLabelClassifier",
    "PairAligner",
    "SegmentLabeller",
    "SequenceLabeller",
    "SetMatcher",
    "StructuralClassifier",
    "StructuralEstimator",
    "TaxonomyClassifier",
    "TreeParser",
]
