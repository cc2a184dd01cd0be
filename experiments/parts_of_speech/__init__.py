"""Parts of speech on a treebank: the slides' hidden Markov model beside discriminative chains."""
