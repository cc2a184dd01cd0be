"""Readers of the formats that people have, and digits that scikit-learn brings.

NumPy and the standard library only (scikit-learn where a docstring says so); of jaxstruct outside
this folder it imports `core.files` and `core.messages` alone. Readers of single corpora are in
`experiments/corpora/`.

  conll, conllu          columns a token, with labels or with dependency trees
  trees, bracketing      trees of phrases, Penn bracketing and its cleaning
  fasta                  sequences, plain or aligned
  svmlight, rows         sparse feature vectors, with the queries of LETOR
  digits, digit_words    training sets of classes and of chains that everyone has
  errors                 every error that the readers raise on its own
"""
