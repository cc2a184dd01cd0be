"""Estimators in scikit-learn's conventions (extra `sklearn`), one a kind of output."""

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "jaxstruct.estimators needs scikit-learn; install it with: pip install 'jaxstruct[sklearn]'"
    ) from error

from jaxstruct.estimators.base import StructuralEstimator
from jaxstruct.estimators.decision_regressor import DecisionRegressor
from jaxstruct.estimators.dependency_parser import DependencyParser
from jaxstruct.estimators.document_ranker import DocumentRanker
from jaxstruct.estimators.graph_labeller import GraphLabeller
from jaxstruct.estimators.measure_classifier import MeasureClassifier
from jaxstruct.estimators.multi_label_classifier import MultiLabelClassifier
from jaxstruct.estimators.pair_aligner import PairAligner
from jaxstruct.estimators.path_search import PathSearchCV
from jaxstruct.estimators.segment_labeller import SegmentLabeller
from jaxstruct.estimators.sequence_labeller import SequenceLabeller
from jaxstruct.estimators.set_matcher import SetMatcher
from jaxstruct.estimators.structural_classifier import StructuralClassifier
from jaxstruct.estimators.taxonomy_classifier import TaxonomyClassifier
from jaxstruct.estimators.tree_parser import TreeParser

__all__ = [
    "DecisionRegressor",
    "DependencyParser",
    "DocumentRanker",
    "GraphLabeller",
    "MeasureClassifier",
    "MultiLabelClassifier",
    "PairAligner",
    "PathSearchCV",
    "SegmentLabeller",
    "SequenceLabeller",
    "SetMatcher",
    "StructuralClassifier",
    "StructuralEstimator",
    "TaxonomyClassifier",
    "TreeParser",
]
