"""MQGrad's claims, measured. A module a claim."""
