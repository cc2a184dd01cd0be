"""Data and methods of tasks that several commands share; none of them uses a command."""
