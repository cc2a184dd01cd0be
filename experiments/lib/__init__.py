"""What the commands share: options and flags, records, tables, plots, progress, result files."""
