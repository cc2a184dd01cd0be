"""Other people's solvers, set up for our tasks: liblinear by scikit-learn, CRFsuite, PyEPO."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jaxstruct.core.types import SparseFeatures

if TYPE_CHECKING:
    import scipy.sparse

DIGITS_OPTIMA = {0.1: 29.9341439, 1.0: 100.6926605}
"""C' -> the optimum of SVM1 on scikit-learn's digits, the whole split of seed 0, to 1e-7.

From scikit-learn's LinearSVC(multi_class="crammer_singer", fit_intercept=False, tol=1e-9), its
weights put into the objective in float64.
"""


def sparse_matrix(features: SparseFeatures, width: int) -> scipy.sparse.csr_matrix:
    """Ragged rows as a SciPy matrix of float64.

    Args:
      features: a store of n rows. width: columns.
    """
    import scipy.sparse

    indices, values = features
    entries = values.rows.astype(np.float64), indices.rows, indices.offsets
    return scipy.sparse.csr_matrix(entries, (len(indices), width))


def linear_svc(C: float, tolerance: float, seed: int = 0) -> Any:
    """An untrained LinearSVC of our objective: C sum_i xi_i, Crammer and Singer's margin, no bias.

    Args:
      C: our C / n. tolerance: LinearSVC's tol.
    """
    from sklearn.svm import LinearSVC

    return LinearSVC(
        multi_class="crammer_singer", fit_intercept=False, C=C, tol=tolerance, max_iter=100_000,
        random_state=seed,
    )  # fmt: skip


def crf_trainer(features: Iterable[Any], labels: Iterable[Sequence[str]], c2: float) -> Any:
    """A trainer of CRFsuite (L-BFGS, L2 penalty c2) that has read sequences; `train(path)`.

    Args:
      features: of each token of each sequence, names or mappings name -> value. labels: of each.

    Raises:
      ImportError: python-crfsuite is missing.
    """
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    trainer = pycrfsuite.Trainer(  # pyright: ignore[reportAttributeAccessIssue]
        algorithm="lbfgs", verbose=False
    )
    trainer.set_params({"c1": 0.0, "c2": c2})
    for own_features, own_labels in zip(features, labels, strict=True):
        trainer.append(own_features, own_labels)
    return trainer


def crf_tagger(trainer: Any) -> Any:
    """What a trainer of `crf_trainer` learns; `tag(features)`."""
    import pycrfsuite  # pyright: ignore[reportMissingImports]

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        trainer.train(path)
        tagger = pycrfsuite.Tagger()  # pyright: ignore[reportAttributeAccessIssue]
        tagger.open_inmemory(Path(path).read_bytes())
    return tagger


def require_pyepo() -> None:
    """Refuse where a package of `pyepo_spo_plus` is missing, before anything is computed.

    Raises:
      ImportError: one is.
    """
    missing = [name for name in ("pyepo", "torch", "ortools") if find_spec(name) is None]
    if missing:
        names = " ".join(missing)
        raise ImportError(f"the method pyepo needs packages: python -m pip install {names}")


def pyepo_spo_plus(
    task: str, size: int, weights: np.ndarray | None, capacity: int,
    x: np.ndarray, c: np.ndarray, steps: int, batch: int, rate: float, seed: int,
) -> np.ndarray:  # fmt: skip
    """[p, d] W of costs x W: SPO+ by PyEPO and Adam, in torch, decisions by OR-tools.

    Args:
      task, size: "path", of a grid of this side, or "knapsack". weights, capacity: of its items.
      x, c: [n, p] and [n, d] to learn from. steps, batch, rate, seed: of Adam, from 0.
    """
    import torch  # pyright: ignore[reportMissingImports]
    from pyepo.data.dataset import optDataset  # pyright: ignore[reportMissingImports]
    from pyepo.func import SPOPlus  # pyright: ignore[reportMissingImports]
    from pyepo.model import ort  # pyright: ignore[reportMissingImports]

    torch.manual_seed(seed)
    if task == "path":
        model = ort.shortestPathModel((size, size), solver="glop")
    else:
        model = ort.knapsackModel(np.asarray(weights, float)[None], np.array([capacity], float))
    data = torch.utils.data.DataLoader(optDataset(model, x, c), batch_size=batch, shuffle=True)
    linear = torch.nn.Linear(x.shape[1], c.shape[1], bias=False)
    torch.nn.init.zeros_(linear.weight)
    loss, optimiser = SPOPlus(model, processes=1), torch.optim.Adam(linear.parameters(), lr=rate)
    batches = itertools.islice(itertools.chain.from_iterable(itertools.repeat(data)), steps)
    for features, costs, decided, value in batches:
        optimiser.zero_grad()
        loss(linear(features), costs, decided, value).backward()
        optimiser.step()
    return linear.weight.detach().numpy().T
