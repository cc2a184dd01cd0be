"""What is minimised: formulations, the most violated constraint, the certificate."""
