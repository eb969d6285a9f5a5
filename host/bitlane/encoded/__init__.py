"""Tables that are stored once with few bits a value, and read many times."""
