"""All seven formulations on scikit-learn's digits."""
