"""Documentation strings of Python files, read from the syntax tree: nothing is imported or run."""

import ast
import warnings
from collections.abc import Iterator

OWN_DOCUMENT = 200  # characters from which a method's docstring is a document of its own
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Unparsed(Exception):
    """A file that does not parse as the Python of this interpreter; it is counted and left out."""


def pydoc(name: str, data: bytes, _: str) -> Iterator[str]:
    """One document per module, top-level function, class and long method that has a docstring.

    A class's document holds its docstring, the strings that follow its attributes and the docstrings of
    its short methods. The first line of a document is the object's dotted name.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the compiler, about the escapes of other people's strings
        try:
            tree = ast.parse(data)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise Unparsed(f"{name}: {error}") from None
    module = name.rsplit(".", 1)[0].replace("/", ".").removesuffix(".__init__")
    if text := ast.get_docstring(tree):
        yield f"{module}\n\n{text}"
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from _class(f"{module}.{node.name}", node)
        elif isinstance(node, Function) and (text := ast.get_docstring(node)):
            yield f"{module}.{node.name}\n\n{text}"


def _class(name: str, node: ast.ClassDef) -> Iterator[str]:
    parts = [text] if (text := ast.get_docstring(node)) else []
    methods = []
    attribute = ""
    for item in node.body:
        if isinstance(item, Function) and (text := ast.get_docstring(item)):
            if len(text) >= OWN_DOCUMENT:
                methods.append(f"{name}.{item.name}\n\n{text}")
            else:
                parts.append(f"{item.name}: {text}")
        elif attribute and (text := _string(item)):
            parts.append(f"{attribute}: {text}")
        attribute = _target(item)
    if parts:
        yield "\n\n".join([name, *parts])
    yield from methods


def _target(node: ast.stmt) -> str:
    """The name that an assignment gives, if the statement is one; a string after it is its documentation."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return targets[0].id if len(targets) == 1 and isinstance(targets[0], ast.Name) else ""


def _string(node: ast.stmt) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return "\n".join(line.strip() for line in node.value.value.strip().splitlines())
    return ""
