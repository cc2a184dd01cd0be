"""The options of `experiments.random_field_certificates`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from experiments.lib import fields
from experiments.lib.options import flag

DATA = ("words", "sentences", "kernel_words")
METHODS = ("lbfgs", "dual", "stochastic", "crfsuite", "svm", "svm_stochastic")


class Options(NamedTuple):
    """The flags of this command."""

    data: Annotated[
        Sequence[str],
        flag("What is trained; kernel_words: by a kernel of degree 2.", DATA, some=True),
    ] = ("words", "sentences")
    methods: Annotated[
        Sequence[str], flag("Which trainers; CRFsuite where it is installed.", METHODS, some=True)
    ] = METHODS
    letter_data: Annotated[
        str | None, flag("A file as letter.data; default: the corpus, see third_party_data.")
    ] = None
    path: Annotated[
        str | None, flag("A folder as conll2002; default: the corpus, see third_party_data.")
    ] = None
    examples: Annotated[int, flag("Words of fold 1 that train; 0: all.", least=0)] = 0
    sentences: Annotated[int, flag("Spanish sentences that train; 0: all.", least=0)] = 300
    kernel_examples: Annotated[int, flag("Words of fold 1 in kernel_words.", least=1)] = 200
    c_over_n: Annotated[float, flag("C' = C / n.", above=0)] = 0.1
    kernel_c_over_n: Annotated[float, flag("C' of kernel_words.", above=0)] = 10.0
    tolerance: Annotated[
        float, flag("Relative duality gap at which dual ascent stops.", above=0)
    ] = 1e-4
    max_passes: Annotated[int, flag("Of dual ascent, at most.", least=1)] = 200
    group: Annotated[int, flag("Examples that a step of dual ascent moves.", least=1)] = 4
    gradient_tolerance: Annotated[
        float, flag("L-BFGS stops at |gradient| <= this times max(1, |w|).", above=0)
    ] = 1e-3
    svm_tolerance: Annotated[
        float, flag("Relative duality gap at which working sets stop.", above=0)
    ] = 1e-3
    epochs: Annotated[int, flag("Of stochastic gradients.", least=1)] = 50
    batch: Annotated[int, flag("Examples of a stochastic gradient.", least=1)] = 4
    rate: Annotated[float, flag("Of the first stochastic step.", above=0)] = 0.1
    evaluate_every: Annotated[
        int, flag("Epochs after which P of stochastic gradients is evaluated.", least=1)
    ] = 1
    output: fields.Output = "results"
    seed: fields.Seed = 0
    x64: fields.X64 = False
    compilation_cache: fields.CompilationCache = False
    progress: fields.ShowProgress = None
