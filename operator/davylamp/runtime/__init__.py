"""The shell: everything that reads a clock, a cluster or a metric source, and acts."""
