"""The demo's models: one network trained on the Adult census, and two optimised variants of it.

``artifacts`` runs in the project's environment and gives the files; ``build`` makes them in the model servers' own.
"""
