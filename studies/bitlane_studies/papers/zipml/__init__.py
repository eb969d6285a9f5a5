"""The claims of ZipML, measured; one module for each claim."""
