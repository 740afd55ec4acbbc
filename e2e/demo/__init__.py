"""The demo: three rollouts of real models on the lab."""
