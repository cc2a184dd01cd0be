"""All of CLINC150 beside liblinear."""
