"""The demo's model servers: an environment of their own, and one MLServer process per address.

``environment`` and ``process`` run in the project's environment; ``__main__`` and ``income`` run in the servers' own.
"""
