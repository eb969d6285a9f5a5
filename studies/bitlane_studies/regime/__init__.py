"""Who wins where: bitlane beside the programs that a user would otherwise run, on tables of many shapes.

map.py        the command: runs the cells that are not measured yet, then writes the page's table and picture
cells.py      the cells: a table, a loss, a penalty, one or many models
tables.py     the tables: real ones, generated ones, and features of images (images.py)
problems.py   the objective that all programs of a cell are judged by, in float64
optimum.py    its optimum, by Newton's method in float64
one_cell.py   a process for one cell: table, optimum, contest, one file of results
contest.py    finds the cheapest setting of each program that reaches the target, then times it
contender.py  a forked process of one program, with its time and its memory
programs.py   all programs by name; ours.py, with_numpy.py, with_scikit.py, with_others.py, with_vw.py hold them
larger.py     a table that does not fit in memory as float32
report.py     tables in Markdown, and the picture
"""
