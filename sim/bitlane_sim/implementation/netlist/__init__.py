"""The netlist that synthesis leaves, cell by cell, as a device: are its bits and cycles those of the reference?"""
