"""What compressors cost and what they do: experiments, trials, timings, advice."""
