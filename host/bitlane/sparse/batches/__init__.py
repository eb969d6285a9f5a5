"""Rows of sparse features: keys, fields, values and labels, from files, streams and arrays."""
