"""`TaxonomyClassifier`: classes inside a taxonomy, which share features and cost by distance.

F(x, y; w) = sum_z lambda_z(y) <w_z, Phi(x)> over the nodes z that are y or above it (thesis 4.19).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from jaxstruct.core.checks import check_choice, check_flag, text_of
from jaxstruct.estimators.structural_classifier import StructuralClassifier
from jaxstruct.multiclass import Taxonomy, taxonomy_features, taxonomy_from_paths, tree_loss
from jaxstruct.multiclass.losses import zero_one_loss

LOSSES = ("tree", "zero_one")


class TaxonomyClassifier(StructuralClassifier):
    """`StructuralClassifier` whose classes lie in a taxonomy; what that says of X, y, C holds here.

    Parameters, beside those of `StructuralClassifier`:
      taxonomy: class -> its ancestors from the top down, {"D01B": ("D", "D01")}, or a `Taxonomy` of
        `jaxstruct.multiclass.taxonomy_from_parents` (several parents, classes at inner nodes).
        None: the classes of y side by side, which makes it a `StructuralClassifier`.
      loss: "tree", the height of the first common ancestor, or "zero_one".
      shared: whether classes share the weights of the nodes above them, every class's features
        being of norm 1; so that those without an example may be predicted, too.

    Attributes, beside those of `StructuralClassifier`:
      classes_: all classes of the taxonomy, sorted; those without an example among them.
      taxonomy_: the `Taxonomy`, its classes in this order; None without one.
    """

    taxonomy: Any = field(default=None, kw_only=False)
    C: float = 100.0
    loss: str = "tree"
    shared: bool = True

    def _check_options(self) -> None:
        super()._check_options()
        check_choice("loss", self.loss, LOSSES)
        check_flag("shared", self.shared)

    def _numbered(self, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(the classes of the taxonomy, sorted, the class of each example)."""
        self.taxonomy_ = _in_order(self.taxonomy)
        if self.taxonomy_ is None:
            return super()._numbered(y)
        names = np.array([self.taxonomy_.names[node] for node in self.taxonomy_.classes])
        wrong = np.flatnonzero(~np.isin(y, names))
        if wrong.size:
            i = int(wrong[0])
            raise ValueError(
                f"y[{i}] is {text_of(y.tolist()[i])}, none of the {len(names)} classes of taxonomy"
                ": add it there"
            )
        return names, np.searchsorted(names, y)

    def _tables(self) -> tuple[np.ndarray | None, Any]:
        if self.taxonomy_ is None:
            return None, zero_one_loss(len(self.classes_))
        features = taxonomy_features(self.taxonomy_, normalise=True) if self.shared else None
        is_tree = self.loss == "tree"
        return features, tree_loss(self.taxonomy_) if is_tree else None


def _in_order(given: Any) -> Taxonomy | None:
    """The taxonomy with its classes sorted by name."""
    if given is None:
        return None
    if not isinstance(given, (Mapping, Taxonomy)):
        raise ValueError(
            "taxonomy must be None, a mapping class -> its ancestors or a Taxonomy, got "
            f"{text_of(given)}"
        )
    found = given if isinstance(given, Taxonomy) else taxonomy_from_paths(given)
    classes = sorted(found.classes, key=lambda node: found.names[node])
    return found._replace(classes=tuple(classes))
