"""One meaning a word: `python .ci/names.py` lists public names with several meanings, and fails if there are any.

A name has several meanings if two modules define a public class of that name, or if public parameters and fields of
that name have more than `MAX_KINDS` kinds of type. A kind is a number, a truth value, a text, a path, an array, a
mapping, a function, or a class; a sequence is of the kind of its elements. Classes whose names end with the word, such
as `BitPlan` and `ReadPlan` for `plan`, count as one kind.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("host", "hw", "sim", "studies", "verify")
MAX_KINDS = 4
# Words with one meaning that many types have: a model, the bits of a value or of values. `average`, a parameter of the
# estimators, is scikit-learn's word: a truth value or a number.
ALLOWED_WORDS = frozenset({"average", "bits", "model", "rows", "settings"})

KINDS = {
    "number": {"int", "float", "complex", "integer", "floating", "number", "Number", "Value", "Signal"},
    "truth value": {"bool"},
    "text": {"str", "bytes", "bytearray", "memoryview", "Literal"},
    "path": {"Path"},
    "array": {"NDArray", "ndarray", "ArrayLike", "Tensor", "tensor", "Array"},
    "mapping": {"dict", "Mapping", "MutableMapping", "Counter", "OrderedDict"},
    "function": {"Callable"},
}
KIND_OF = {name: kind for kind, names in KINDS.items() for name in names}
SEQUENCES = {"list", "tuple", "set", "frozenset", "deque", "Sequence", "Iterable", "Iterator", "Collection", "Set"}
WRAPPERS = SEQUENCES | {"type", "ClassVar", "Final"}
ANYTHING = {"Any", "object", "None", "range"}
Trees = Mapping[str, ast.Module]


def main(root: Path = ROOT) -> int:
    """Print the names with several meanings, and return 1 if there are any."""
    files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*.py"))]
    trees = {file.relative_to(root).as_posix(): ast.parse(file.read_text()) for file in files}
    lines = [*several_classes(trees), *several_kinds(trees)]
    if lines:
        print(*lines, f"{len(lines)} names with several meanings: rename each to what it is of", sep="\n")
    return int(bool(lines))


def several_classes(trees: Trees) -> Iterator[str]:
    """Describe each public class name that several modules define."""
    modules = defaultdict(list)
    for module, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(module)
    for name, definitions in sorted(modules.items()):
        if len(definitions) > 1:
            yield f"class {name}: {', '.join(definitions)}"


def several_kinds(trees: Trees) -> Iterator[str]:
    """Describe each name whose public parameters and fields have more than `MAX_KINDS` kinds of type."""
    aliases = dict(alias for tree in trees.values() for alias in aliases_of(tree))
    modules: dict[str, dict[str, str]] = defaultdict(dict)  # name -> kind -> the first module with it
    for module, tree in trees.items():
        for name, annotation in annotated(tree.body):
            for kind in kinds(annotation, aliases):
                modules[name].setdefault(own_kind(name, kind), module)
    for name, by_kind in sorted(modules.items(), key=lambda item: (-len(item[1]), item[0])):
        if len(by_kind) > MAX_KINDS and name not in ALLOWED_WORDS:
            examples = ", ".join(f"{kind} ({module})" for kind, module in sorted(by_kind.items()))
            yield f"{name}: {len(by_kind)} kinds: {examples}"


def annotated(body: Iterable[ast.stmt]) -> Iterator[tuple[str, ast.expr]]:
    """Yield name and annotation of each parameter of public functions, and of each field of public classes."""
    for node in body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from annotated(node.body)
        elif isinstance(node, ast.FunctionDef) and (not node.name.startswith("_") or node.name == "__init__"):
            for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if each.annotation is not None:
                    yield each.arg, each.annotation
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_":
            yield node.target.id, node.annotation


def aliases_of(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the names that a module gives to types, such as `Keys = NDArray[np.uint64]`."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp() as value):
                yield name, value


def kinds(annotation: ast.expr, aliases: Mapping[str, ast.expr], seen: Sequence[str] = ()) -> set[str]:
    """Return the kinds that an annotation allows: none for Any, object and None, and no text beside a path."""
    match annotation:
        case ast.Constant(value=str(text)):
            return kinds(ast.parse(text, mode="eval").body, aliases, seen)
        case ast.BinOp(left=left, right=right):
            either = kinds(left, aliases, seen) | kinds(right, aliases, seen)
            return either - {"text"} if "path" in either else either
        case ast.Subscript(value=value, slice=inner) if last_name(value) in WRAPPERS:
            elements = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return set().union(*(kinds(element, aliases, seen) for element in elements))
        case ast.Subscript(value=value):
            return kinds(value, aliases, seen)
    name = last_name(annotation)
    if name in aliases and name not in seen:
        return kinds(aliases[name], aliases, (*seen, name))
    return set() if not name or name in ANYTHING | WRAPPERS else {KIND_OF.get(name, name)}


def own_kind(name: str, kind: str) -> str:
    """Return `kind`, or the same kind for all classes whose name ends with the word `name`."""
    word = "".join(part.capitalize() for part in name.split("_"))
    return word if kind.endswith((word, f"{word}s", word.removesuffix("s"))) else kind


def last_name(expression: ast.expr) -> str:
    """Return `Path` for `Path` and for `pathlib.Path`, and an empty text for anything but a name."""
    return getattr(expression, "id", getattr(expression, "attr", ""))


if __name__ == "__main__":
    raise SystemExit(main())
