"""How ranks talk: links that agree, averages of codes, processes, emulated links."""
