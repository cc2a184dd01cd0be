"""Files of a run that can be resumed."""
