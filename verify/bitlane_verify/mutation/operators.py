"""Mutation operators: the small changes of the RTL's source, one at a time."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace

SWAPPED: dict[type[ast.operator] | type[ast.cmpop], type[ast.operator] | type[ast.cmpop]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
REDUCTIONS = {"all": "any", "any": "all"}
SHAPED = ("In", "Out", "Signal", "StructLayout", "ArrayLayout")  # their arguments are shapes
DELAYS = ("delay", "delay_valid")  # functions whose third argument is a number of cycles
UNTOUCHED = ("name", "strict", "fmt")  # arguments that do not describe hardware


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Attributes
    ----------
    module : str
        Path of the file below the package, without `.py`, such as "datapath/dot".
    scope : str
        Class and function that contain the change.
    line : int
        Line of the file, from 1.
    change : str
        The change in words.
    start, end : int
        The bytes of the file that are replaced.
    text : str
        The text that replaces them.
    """

    module: str
    scope: str
    line: int
    change: str
    start: int
    end: int
    text: str

    def applied(self, source: str) -> str:
        """Return the file's text with the change."""
        data = source.encode()
        return (data[: self.start] + self.text.encode() + data[self.end :]).decode()

    @property
    def key(self) -> tuple[str, str, str]:
        """What identifies the mutant, also after lines above it were edited."""
        return self.module, self.scope, self.change


def mutants(module: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of the file. Equal changes in a scope are numbered."""
    finder = _MutantFinder(module, source)
    finder.visit(ast.parse(source))
    seen: Counter[tuple[str, str, str]] = Counter()
    numbered = []
    for mutant in finder.mutants:
        seen[mutant.key] += 1
        again = f" ({seen[mutant.key]})" if seen[mutant.key] > 1 else ""
        numbered.append(replace(mutant, change=mutant.change + again))
    return numbered


class _MutantFinder(ast.NodeVisitor):
    """Visits the nodes of a file and collects the mutants of each."""

    def __init__(self, module: str, source: str):
        self._module = module
        self._source = source.encode()
        self._starts = [0]
        for line in self._source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._scopes: list[str] = []
        self._around: list[ast.AST] = []
        self._in_shape = False
        self._member = ""  # whose shape is visited
        self.mutants: list[Mutant] = []

    # --- scopes
    def visit(self, node: ast.AST) -> None:
        self._around.append(node)
        super().visit(node)
        self._around.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._inside(node.name, node.body)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside(node.name, node.body)

    def _inside(self, name: str, body: list[ast.stmt]) -> None:
        self._scopes.append(name)
        for statement in body:
            self.visit(statement)
        self._scopes.pop()

    # --- statements
    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        """Leave errors as they are."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Change a field of a structure, or a variable of a function."""
        if node.value is None:
            self._member = ast.unparse(node.target)
            self._shape(node.annotation)
        else:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if isinstance(node.targets[0], ast.Attribute) and ast.unparse(node.targets[0]) == "m.next":
            self._replace(node, "pass", f"dropped `{ast.unparse(node)}`")
        elif not any(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Drop each assignment of `m.d.sync += [...]`."""
        if ast.unparse(node.target).startswith("m.d."):
            statements = node.value.elts if isinstance(node.value, ast.List) else [node.value]
            for statement in statements:
                nothing = "*()" if isinstance(node.value, ast.List) else "[]"
                self._replace(statement, nothing, f"dropped `{_short(statement)}`")
        self.visit(node.value)

    def visit_With(self, node: ast.With) -> None:
        for item in node.items:
            call = item.context_expr
            if isinstance(call, ast.Call) and ast.unparse(call.func) in ("m.If", "m.Elif"):
                (condition,) = call.args
                self._replace(condition, "1", f"`{_short(condition)}` always true")
                self._replace(condition, f"~({ast.unparse(condition)})", f"`{_short(condition)}` inverted")
            self.visit(call)
        for statement in node.body:
            self.visit(statement)

    # --- expressions
    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = SWAPPED.get(type(node.op))
        if other is not None:
            self._rewrite(node, ast.BinOp(node.left, other(), node.right))  # type: ignore[arg-type]
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        for i, op in enumerate(node.ops):
            other = SWAPPED.get(type(op))
            if other is not None:
                ops = [*node.ops[:i], other(), *node.ops[i + 1 :]]
                self._rewrite(node, ast.Compare(node.left, ops, node.comparators))  # type: ignore[arg-type]
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Invert):
            self._rewrite(node, node.operand)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
        if name == "Mux":
            self._rewrite(node, ast.Call(node.func, [node.args[0], node.args[2], node.args[1]], []))
        elif name in REDUCTIONS and isinstance(node.func, ast.Attribute):
            self._rewrite(node, ast.Call(ast.Attribute(node.func.value, REDUCTIONS[name]), [], []))
        elif name == "as_signed" and isinstance(node.func, ast.Attribute):
            self._rewrite(node, ast.Call(ast.Attribute(node.func.value, "as_unsigned"), [], []))
        elif name in DELAYS and not isinstance(node.args[2], ast.Constant):
            cycles = node.args[2]
            for op in (ast.Add(), ast.Sub()):
                self._rewrite(cycles, ast.BinOp(cycles, op, ast.Constant(1)))
        self.visit(node.func)
        shaped, self._in_shape = self._in_shape, self._in_shape or name in SHAPED
        for argument in node.args:
            self._shape(argument) if self._in_shape else self.visit(argument)
        self._in_shape = shaped
        for keyword in node.keywords:
            if keyword.arg not in UNTOUCHED:
                self.visit(keyword.value)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave names as they are."""

    def visit_Constant(self, node: ast.Constant) -> None:
        if type(node.value) is int:
            around = next(outer for outer in reversed(self._around[:-1]) if not isinstance(outer, ast.List | ast.Tuple))
            assigned = isinstance(around, ast.Call) and ast.unparse(around.func).endswith(".eq")
            others = (
                (1 - node.value,)
                if node.value == 0 or (assigned and node.value == 1)
                else (node.value + 1, node.value - 1)
            )
            for value in others:
                change = f"`{node.value}` became `{value}` in `{_short(around)}`"
                self._replace(node, f"({value})", change)

    # --- shapes
    def visit_Dict(self, node: ast.Dict) -> None:
        """Change the members of a signature or a structure."""
        for key, value in zip(node.keys, node.values, strict=True):
            self._member = "" if key is None else ast.unparse(key)
            self._shape(value)

    def _shape(self, node: ast.expr) -> None:
        """Make a signal, or the members of a structure, a bit narrower if they have several."""
        change = f"`{_short(node)}` a bit narrower" + (f" in {self._member}" if self._member else "")
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value > 1:
            self._replace(node, str(node.value - 1), change)
        elif isinstance(node, ast.Name | ast.BinOp) and ast.unparse(node).isupper():
            self._replace(node, f"({ast.unparse(node)} - 1)", change)
        elif isinstance(node, ast.Dict):
            self.visit_Dict(node)
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            (argument, *_) = node.args or [ast.Constant(None)]
            if name in ("signed", "unsigned"):
                self._shape(argument)
            elif name == "range" and len(node.args) == 1:
                self._replace(node, f"range(({ast.unparse(argument)} + 1) // 2)", change)
            else:
                self.visit(node)

    # --- mutants
    def _rewrite(self, node: ast.expr, changed: ast.expr) -> None:
        text = ast.unparse(ast.fix_missing_locations(changed))
        self._replace(node, f"({text})", f"`{_short(node)}` became `{_short(changed)}`")

    def _replace(self, node: ast.expr | ast.stmt, text: str, change: str) -> None:
        assert node.end_lineno is not None and node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        end = self._starts[node.end_lineno - 1] + node.end_col_offset
        self.mutants.append(Mutant(self._module, ".".join(self._scopes), node.lineno, change, start, end, text))


def _short(node: ast.AST, most: int = 90) -> str:
    text = ast.unparse(node)
    return text if len(text) <= most else text[: most - 4] + " ..."
