"""Papers' claims, measured: `bitlane reproduce PAPER`. A package a paper, a module a claim."""
