"""Version ``v1alpha1`` of ``davylamp.dev``: models, their CRDs, conditions, and the way to and from the core."""
