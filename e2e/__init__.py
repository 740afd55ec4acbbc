"""Davylamp on real parts: the lab, and what is shown and tested in it."""
