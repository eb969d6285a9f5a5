"""Mutation testing of the RTL: do the tests notice small changes of its Amaranth source? (`make mutate`)"""
