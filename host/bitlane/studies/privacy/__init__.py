"""What gradients on the wire tell of the images behind them: gradient inversion, and who knows the codec."""
