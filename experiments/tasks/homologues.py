"""Generated homologues as examples."""

from __future__ import annotations

import numpy as np

from experiments.corpora.homologues import Homologues
from experiments.machines.homologues import HomologueInput, HomologueOutput, homologue_outputs


def as_examples(data: Homologues) -> tuple[HomologueInput, HomologueOutput]:
    """Generated examples as inputs and outputs of `homologue_search`."""
    n, Q, N = data.candidates.shape
    M = data.natives.shape[1]
    lengths = np.full(n, M, np.int32), np.full((n, Q), N, np.int32)
    outputs = homologue_outputs(data.homologue, data.operations, data.begin, M + N)
    return HomologueInput(data.natives, data.candidates, *lengths), outputs
