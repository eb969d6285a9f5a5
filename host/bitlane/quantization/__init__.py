"""From values to the codes that are stored, and from weights back to user units."""
