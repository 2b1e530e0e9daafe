"""What is done with a part of an expression, and whether it runs whenever what is around it does."""

from __future__ import annotations

import ast

from autograder.examiner.bindings import Comprehension, Function


class Role:
    """What is done with the expression that a node is."""

    USED = "used"
    CALLED = "called"
    PART = "part"  # of a longer dotted name
    MENTIONED = "mentioned"  # neither called nor passed on


def role_of(node: ast.AST, field: str, child: ast.AST) -> str:
    """The role (see `Role`) of what stands in a field of a node."""
    if isinstance(node, ast.Call) and field == "func":
        return Role.CALLED
    if isinstance(node, ast.Attribute) and isinstance(child, ast.Name | ast.Attribute):
        return Role.PART
    return Role.USED


def is_conditional(node: ast.AST, field: str, role: str) -> bool:
    """Whether what stands in a field of a node need not run when the node does."""
    match node:
        case ast.If() | ast.IfExp() | ast.While():
            return field != "test"
        case ast.For() | ast.AsyncFor():
            return field in ("target", "body", "orelse")
        case ast.Try():
            return field in ("handlers", "orelse")
        case ast.Match():
            return field == "cases"
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            return field != "body" or role != Role.CALLED
    return isinstance(node, ast.ClassDef | Comprehension)


def may_leave(statement: ast.stmt) -> bool:
    """Whether a statement may end the function or the turn of a loop: what follows it need not run."""
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Return | ast.Break | ast.Continue):
            return True
        if not isinstance(node, Function | ast.ClassDef | ast.expr):
            stack += ast.iter_child_nodes(node)
    return False
