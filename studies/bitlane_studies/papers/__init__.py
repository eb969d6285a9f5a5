"""Measure the claims of papers: `bitlane reproduce PAPER`. Each paper is a package, and each claim a module."""
