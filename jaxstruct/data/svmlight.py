"""SVM-light files: one example a line, `label index:value index:value ... # comment`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxstruct.data.errors import MalformedFile
from jaxstruct.data.optional import sklearn_datasets
from jaxstruct.data.rows import CsrRows, from_scipy


class SvmlightData(NamedTuple):
    """`rows`: n feature vectors; `labels`: [n] float64, as written in the file."""

    rows: CsrRows
    labels: np.ndarray


def load_svmlight(
    path: Path, *, number_of_features: int | None = None, zero_based: bool = False
) -> SvmlightData:
    """Reads an SVM-light file.

    Args:
      path: the file, plain or .gz or .bz2.
      number_of_features: the dimension d. None takes the highest index in the file; give the
        training set's d for a test set, or the two disagree.
      zero_based: whether the first feature is written 0. SVM-light writes 1; nothing is guessed.

    Raises:
      FileNotFoundError: no such file.
      MalformedFile: a line is not in the format, an index is below the base or above d, the
        indices of a line do not rise strictly, a number is not finite, or the file is empty.
      ImportError: scikit-learn is not installed.
    """
    reader = sklearn_datasets("load_svmlight").load_svmlight_file
    try:
        matrix, labels = reader(
            str(path), n_features=number_of_features, dtype=np.float64, zero_based=zero_based
        )
        rows = from_scipy(matrix)
    except FileNotFoundError:
        raise
    except (ValueError, OSError, EOFError) as error:
        raise MalformedFile(
            f"{path}: not a sound SVM-light file ({error}); expected lines 'label index:value ...' "
            f"with indices that rise from {0 if zero_based else 1}"
        ) from error
    if len(labels) == 0 or not np.isfinite(labels).all():
        raise MalformedFile(f"{path}: expected at least one example, all with finite labels")
    return SvmlightData(rows, labels)
