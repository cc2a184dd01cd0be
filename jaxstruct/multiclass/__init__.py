"""Multiclass: classes, output features, taxonomies."""
