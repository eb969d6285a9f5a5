"""Results as records, text and plots."""
