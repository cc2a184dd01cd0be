"""What a person waits for: first fits, warm fits, programs and memory, a row a task."""
