"""The demo's model servers: an environment of their own, and one MLServer process per address.

``environment`` and ``process`` run in the project's environment; ``__main__``, ``answering``, ``income`` and ``digits``
run in the servers' own.
"""
