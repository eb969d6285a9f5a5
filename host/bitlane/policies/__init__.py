"""Policies that choose the number of bits while a training runs. They need only numpy."""
