"""Stream payloads, rounding and other arithmetic that all blocks share."""
