"""The pure part: facts in, decisions out. No clock, network, cluster, log or YAML."""
