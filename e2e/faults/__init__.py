"""Faults between Davylamp and what it speaks to, made at exactly the moment that a test names."""
