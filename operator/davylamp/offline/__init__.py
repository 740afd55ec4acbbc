"""What is computed away from a cluster: replays of history, calibrations, predictions."""
