"""Speed and memory, measured by scripts and never by unit tests."""
