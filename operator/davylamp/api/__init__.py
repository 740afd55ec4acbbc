"""How Davylamp's resources are spelled in Kubernetes, one package per version."""
