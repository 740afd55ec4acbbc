"""The demo's traffic: held-out rows of the Adult census, replayed through the gateway at a steady rate."""
