"""Communication between ranks: links with a handshake, averages of codes, processes, emulated links."""
