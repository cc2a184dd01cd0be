"""Files of any size labelled by a trained model, in batches on all devices."""
