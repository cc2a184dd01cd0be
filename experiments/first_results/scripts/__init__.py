"""One program a task and tool, as a person would write it; each prints its score."""
