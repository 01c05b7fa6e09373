"""Small faults in Python code, one at a time: errors that a programmer might make on one line.

Annotations, docstrings, decorators and texts stay unchanged: the wording of messages does not matter here.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

SPARED = {"description", "encoding", "flush", "frozen", "strict"}
"""Arguments that no test needs to notice: texts; UTF-8 is the default, and no code assigns to frozen objects."""
OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.LtE: ast.Lt, ast.GtE: ast.Gt, ast.Lt: ast.LtE, ast.Gt: ast.GtE, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult},
}
"""The replacement of each operator."""
Fault = tuple[str, ast.AST, ast.AST]
"""The kind of fault, the node, and its replacement."""


@dataclass(frozen=True)
class Mutant:
    path: str
    fault: str
    line: int
    last: int
    """The lines that are changed, from 1, both included."""
    start: int
    end: int
    """The bytes that `text` replaces."""
    text: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.text.encode() + source[self.end :]

    def change(self, source: bytes) -> tuple[str, str]:
        """The changed lines before and after, each in one line: they identify a mutant."""
        before, after = (text.splitlines()[self.line - 1 : self.last] for text in (source, self.apply(source)))
        return b" ".join(b" ".join(before).split()).decode(), b" ".join(b" ".join(after).split()).decode()


def find_mutants(path: str, source: bytes) -> list[Mutant]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for fault, old, new in _faults(ast.parse(source)):
        assert isinstance(old, ast.expr | ast.stmt)
        last, column = old.end_lineno or 0, old.end_col_offset or 0
        # Blank lines replace removed ones, so that later lines keep their numbers.
        text = ast.unparse(new)
        lost = "\n" * (last - old.lineno - text.count("\n"))
        text = f"({text}{lost})" if isinstance(old, ast.expr) else text + lost
        start, end = starts[old.lineno - 1] + old.col_offset, starts[last - 1] + column
        found.append(Mutant(path, fault, old.lineno, last, start, end, text))
    return found


def _faults(node: ast.AST) -> Iterator[Fault]:
    """The faults of a node and of its children."""
    yield from _own_faults(node)
    for child in _children(node):
        yield from _faults(child)


def _children(node: ast.AST) -> list[ast.AST]:
    match node:
        case ast.FunctionDef(args=args, body=body) | ast.AsyncFunctionDef(args=args, body=body):
            return [*args.defaults, *(one for one in args.kw_defaults if one), *body]
        case ast.ClassDef(body=body):
            return [*body]
        case ast.AnnAssign(value=value):
            return [value] if value else []
        case ast.If(test=test) if ast.unparse(test).startswith(("TYPE_CHECKING", "__name__")):
            return []
        case ast.Assign(targets=[ast.Name(id="__all__")]) | ast.JoinedStr() | ast.arguments() | ast.Assert():
            return []
        case ast.Assign(targets=[ast.Tuple()], value=ast.Tuple(elts=elements)):
            return [*elements]
        case ast.Subscript(value=value, slice=ast.Tuple()):
            # `dict[str, int]` and the like are types.
            return [value]
        case ast.keyword(arg=name) if name in SPARED:
            return []
    return [*ast.iter_child_nodes(node)]


def _own_faults(node: ast.AST) -> Iterator[Fault]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if _children(node):
            yield "negated condition", test, ast.UnaryOp(ast.Not(), test)
        case ast.comprehension(ifs=tests):
            yield from (("negated condition", test, ast.UnaryOp(ast.Not(), test)) for test in tests)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", node, operand
        case ast.BoolOp(op=op, values=values):
            yield "boolean", node, ast.BoolOp(_other(op), values)
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for at in range(len(ops)):
                yield "comparison", node, ast.Compare(left, [*ops[:at], _other(ops[at]), *ops[at + 1 :]], comparators)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in OTHERS:
            if not _is_text(left) and not _is_text(right):
                yield "arithmetic", node, ast.BinOp(left, _other(op), right)
        case ast.Constant(value=bool(value)):
            yield "constant", node, ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield "constant", node, ast.Constant(value * 2 if value > 2 else value + 1)
        case ast.Return(value=value) if value and not isinstance(value, ast.Constant):
            yield "returned None", value, ast.Constant(None)
        case ast.Call(func=func, args=arguments, keywords=keywords):
            for one in keywords:
                if one.arg and one.arg not in SPARED:
                    yield "dropped argument", node, ast.Call(func, arguments, _without(keywords, one))
        case ast.Dict(keys=keys, values=values):
            for at, key in enumerate(keys):
                if key:
                    rest = ast.Dict(keys[:at] + keys[at + 1 :], values[:at] + values[at + 1 :])
                    yield "dropped entry", node, rest
        case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
            if isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
                for element in elements:
                    yield "dropped element", node, type(node)(elts=_without(elements, element))
        case ast.Raise() | ast.Continue() | ast.Break() | ast.AugAssign() | ast.Delete():
            yield "removed statement", node, ast.Pass()
        case ast.Expr(value=ast.Call() | ast.Await()) | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "removed statement", node, ast.Pass()


def _other(operator: ast.AST) -> Any:
    return OTHERS[type(operator)]()


def _without(everything: list[Any], one: ast.AST) -> list[Any]:
    return [each for each in everything if each is not one]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
