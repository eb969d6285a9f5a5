"""Small functions that are independent of the subject of bitlane."""
