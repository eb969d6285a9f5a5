"""Services that answer requests for predictions: Arrow Flight, HTTP, metrics, and the label that they follow."""
