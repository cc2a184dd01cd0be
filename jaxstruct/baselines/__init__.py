"""Machines that a structural SVM is compared with: hidden Markov, random field, perceptron."""
