"""Readers of data: where corpora are, how they are read, and how they are split.

NumPy and the standard library only (scikit-learn where a docstring says so); of jaxstruct outside
this folder it imports `core.files` and `core.feature_index` alone.

  registry, locate, fetching   what each corpus is, where it lies, how it is downloaded
  rebuild                      corpora built from a file that the user has downloaded
  archives, npz                zip, tar and .npz, safely
  clinc150, wipo, ipc, clus_arff, svmlight, digits    readers
  digit_words                  a training set for chains that everyone has
  treebanks                    bracketed trees as text, by file and part
  class_paths                  classes written as paths of a tree
  rows, splits                 compressed and padded rows; subsamples and folds
  errors                       every error that the readers raise on its own
"""
