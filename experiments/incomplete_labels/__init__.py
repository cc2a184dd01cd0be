"""Training on labels of which a part is missing; `command` has the options and what it does."""
