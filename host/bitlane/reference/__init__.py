"""The numpy reference, which equals the RTL bit for bit."""
