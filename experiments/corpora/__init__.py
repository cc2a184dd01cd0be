"""Corpora of the tables: what each is and where it lies, and what reads it into arrays.

  registry, locate, fetching   what each corpus is, where it lies, how it is downloaded or built
  archives                     zip, tar and .npz, safely
  splits                       subsamples and folds
  errors                       what is raised beside the errors of `jaxstruct.data`

The other modules read one corpus each, or draw one. NumPy and `jaxstruct.data` alone.
"""
