"""Notebooks for a PYNQ board: `pynq get-notebooks bitlane` copies this folder, by the entry point `pynq.notebooks`."""
