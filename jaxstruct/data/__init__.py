"""The data side wing: where corpora are, how they are read, and how they are split.

NumPy and the standard library only (scikit-learn where a docstring says so); it imports nothing
of jaxstruct outside this folder.

  registry, locate, fetching   what each corpus is, where it lies, how it is downloaded
  archives                     zip and tar, safely
  clinc150, wipo, ipc, clus_arff, svmlight, digits    readers
  treebanks                    bracketed trees as text, by file and part
  class_paths                  classes written as paths of a tree
  rows, splits                 compressed and padded rows; subsamples and folds
  errors                       every error that the wing raises on its own
"""
