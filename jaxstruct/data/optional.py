"""The one import of scikit-learn, which the readers of data needs for a few loaders only."""

from __future__ import annotations

from types import ModuleType


def sklearn_datasets(purpose: str) -> ModuleType:
    """Returns `sklearn.datasets`; an ImportError says what needs it and which extra installs it."""
    try:
        import sklearn.datasets
    except ImportError as error:
        raise ImportError(
            f"{purpose} needs scikit-learn; install it with: pip install 'jaxstruct[experiments]'"
        ) from error
    return sklearn.datasets
