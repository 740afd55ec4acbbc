"""The demo's models: a network trained on the Adult census, one trained on digits, and two optimised variants of each.

``artifacts`` runs in the project's environment and gives the files; ``build`` makes them in the model servers' own.
"""
