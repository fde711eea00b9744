"""The grammar of PartiQL statements as DynamoDB speaks it; statements become the same trees as
expressions.

Thread safety: a parser object belongs to one call.
Invariant: recursion is bounded by partiqlbase.MAX_DEPTH.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from dynalsm.expressions import error
from dynalsm.expressions import partiqllexer as lexer
from dynalsm.expressions.ast import (
    Action,
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    ConditionNode,
    Constant,
    In,
    Not,
    Operand,
    Or,
    Path,
    Slot,
    Steps,
)
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.partiqlbase import PartiQLParser
from dynalsm.expressions.partiqllexer import Token
from dynalsm.limits import STATEMENT_IN_MAX_OTHERS

_COMPARATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
# Functions of WHERE; all but SIZE are conditions.
_FUNCTIONS: Final = frozenset(
    (
        "attribute_exists",
        "attribute_not_exists",
        "attribute_type",
        "begins_with",
        "contains",
        "size",
    )
)


@dataclass(frozen=True, slots=True)
class SelectTree:
    """SELECT; `paths` is None for `*`, `order` lists (path, descending)."""

    table: str
    index: str | None
    paths: tuple[Steps, ...] | None
    where: ConditionNode | None
    order: tuple[tuple[Steps, bool], ...]


@dataclass(frozen=True, slots=True)
class InsertTree:
    """INSERT; the item is a literal in which Slots stand for parameters."""

    table: str
    item: dict[str, Any]


@dataclass(frozen=True, slots=True)
class UpdateTree:
    """UPDATE; `returning` is for example ("ALL", "OLD")."""

    table: str
    index: str | None
    actions: tuple[Action, ...]
    where: ConditionNode | None
    returning: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class DeleteTree:
    """DELETE."""

    table: str
    index: str | None
    where: ConditionNode | None
    returning: tuple[str, str] | None


@dataclass(frozen=True, slots=True)
class ExistsTree:
    """EXISTS(SELECT ...)."""

    select: SelectTree


StatementTree = SelectTree | InsertTree | UpdateTree | DeleteTree | ExistsTree


class ConditionParser(PartiQLParser):
    """The rules of WHERE."""

    def where(self) -> ConditionNode | None:
        if not self.word("WHERE"):
            return None
        return self.condition(self.disjunction())

    def condition(self, node: Any) -> ConditionNode:
        """Refuse an operand where a condition must stand."""
        if isinstance(node, (Path, Constant, Slot)):
            self.fail("Unexpected token after expression")
        if isinstance(node, Call) and node.function == "size":
            raise Refusal(
                "The function is not allowed to be used this way in an expression; function: size",
                error.FUNCTION,
            )
        return node  # type: ignore[no-any-return]

    def disjunction(self) -> Any:
        node = self.conjunction()
        if not self.token.is_word("OR"):
            return node
        terms = [self.condition(node)]
        while self.word("OR"):
            terms.append(self.condition(self.conjunction()))
        return Or(_flat(Or, terms))

    def conjunction(self) -> Any:
        node = self.negation()
        if not self.token.is_word("AND"):
            return node
        terms = [self.condition(node)]
        while self.word("AND"):
            terms.append(self.condition(self.negation()))
        return And(_flat(And, terms))

    def negation(self) -> Any:
        count = 0
        while self.word("NOT"):
            count += 1
        node = self.predicate()
        if count:
            node = self.condition(node)
        return _negated(node) if count % 2 else node

    def predicate(self) -> Any:
        left = self.term()
        if self.token.kind == lexer.SIGN and self.token.text in _COMPARATORS:
            operator = self.token.text
            self.place += 1
            return Compare(operator, self.only_operand(left), self.only_operand(self.term()))
        negated = self.token.is_word("NOT") and (
            self.tokens[self.place + 1].is_word("IN")
            or self.tokens[self.place + 1].is_word("BETWEEN")
        )
        if negated:
            self.place += 1
        node = left
        if self.word("BETWEEN"):
            lower = self.only_operand(self.term())
            self.expect_word("AND")
            node = Between(self.only_operand(left), lower, self.only_operand(self.term()))
        elif self.word("IN"):
            node = In(self.only_operand(left), self.options())
        elif self.word("IS"):
            node = self.existence(self.only_operand(left))
        return _negated(node) if negated else node

    def options(self) -> tuple[Operand, ...]:
        close = "]" if self.sign("[") else ")"
        if close == ")":
            self.expect_sign("(")
        options = [self.only_operand(self.term())]
        while self.sign(","):
            options.append(self.only_operand(self.term()))
        self.expect_sign(close)
        if len(options) > STATEMENT_IN_MAX_OTHERS:  # of hash values there may be fewer still
            raise Refusal(
                "The IN operator is provided with too many operands; number of operands: "
                f"{len(options)}",
                error.LIMIT,
            )
        return tuple(options)

    def existence(self, operand: Any) -> Any:
        """Take what follows IS: [NOT] MISSING, [NOT] NULL."""
        negated = self.word("NOT")
        node: Any
        if self.word("MISSING"):
            node = Call("attribute_not_exists", (operand,))
        elif self.word("NULL"):
            node = Call("attribute_type", (operand, Constant("NULL")))
        else:
            self.fail("Expected MISSING or NULL")
        return Not(node) if negated else node

    def only_operand(self, node: Any) -> Any:
        """Refuse a condition where an operand must stand."""
        if isinstance(node, Call) and node.function != "size":
            raise Refusal(
                "The function is not allowed to be used this way in an expression; function: "
                + node.function,
                error.FUNCTION,
            )
        if not isinstance(node, (Path, Constant, Slot, Call)):
            self.fail("Unexpected token after expression")
        return node

    def term(self) -> Any:
        """Take an operand, a function call, or anything in parentheses."""
        if self.sign("("):
            self.enter()
            node = self.disjunction()
            self.expect_sign(")")
            self.depth -= 1
            return node
        if not self.is_call():
            return self.operand()
        start = self.token
        function = start.text.lower()
        if function not in _FUNCTIONS:
            raise self.unrecognized(start)
        return Call(function, tuple(self.arguments(lambda: self.only_operand(self.term()))))


class StatementParser(ConditionParser):
    """Reads one statement; `parameters` counts its `?`, `templates` are literals around them."""

    def parse(self) -> StatementTree:
        tree: StatementTree
        if self.word("SELECT"):
            tree = self.select()
        elif self.word("INSERT"):
            tree = self.insert()
        elif self.word("UPDATE"):
            tree = self.update()
        elif self.word("DELETE"):
            tree = self.delete()
        elif self.word("FROM"):
            tree = self.update()
        elif self.token.is_word("EXISTS"):
            tree = self.exists()
        else:
            self.fail("Expected data manipulation")
        self.sign(";")
        if self.token.kind != lexer.END:
            self.fail("Unexpected token after expression")
        return tree

    def exists(self) -> ExistsTree:
        self.expect_word("EXISTS")
        self.expect_sign("(")
        self.expect_word("SELECT")
        select = self.select()
        self.expect_sign(")")
        return ExistsTree(select)

    def select(self) -> SelectTree:
        paths = None if self.sign("*") else self.projection()
        if not self.word("FROM"):
            self.fail("Expected FROM after select list")
        table, index = self.table()
        where = self.where()
        order: list[tuple[Steps, bool]] = []
        if self.word("ORDER"):
            self.expect_word("BY")
            order.append(self.ordering())
            while self.sign(","):
                order.append(self.ordering())
        return SelectTree(table, index, paths, where, tuple(order))

    def ordering(self) -> tuple[Steps, bool]:
        path = self.path()
        descending = self.word("DESC")
        if not descending:
            self.word("ASC")
        return path, descending

    def projection(self) -> tuple[Steps, ...]:
        paths = [self.projected()]
        while self.sign(","):
            paths.append(self.projected())
        return tuple(paths)

    def projected(self) -> Steps:
        start = self.token
        path = self.path()
        if self.token.is_sign("("):  # a function, COUNT(*) for one
            raise Refusal(f"Unexpected path component {self.at(start)}", error.FUNCTION)
        self.refuse_alias()
        return path

    def refuse_alias(self) -> None:
        if self.token.is_word("AS") or self.name() is not None:
            raise Refusal("Aliasing is not supported", error.PARAMETER)

    def table(self) -> tuple[str, str | None]:
        """Take `table` or `table.index`."""
        parts = [self.component()]
        while self.sign("."):
            parts.append(self.component())
        if len(parts) > 2:
            raise Refusal(
                "A path may contain at most 2 components in the FROM clause", error.PARAMETER
            )
        self.refuse_alias()
        return parts[0], parts[1] if len(parts) == 2 else None

    def component(self) -> str:
        name = self.name()
        if name is None:
            self.fail("Expected identifier")
        if not name:
            raise Refusal("Path component cannot be an empty string", error.PARAMETER)
        return name

    def insert(self) -> InsertTree:
        self.expect_word("INTO")
        start = self.token
        table, index = self.table()
        if index is not None:
            raise Refusal(
                "FROM clause may only contain a single table name in data manipulation statements "
                + self.at(start),
                error.PARAMETER,
            )
        self.expect_word("VALUE")
        if not self.token.is_sign("{"):
            self.fail("Expected tuple")
        item = self.literal("root")
        return InsertTree(table, item)

    def update(self) -> UpdateTree:
        table, index = self.table()
        actions: list[Action] = []
        where = self.where()  # FROM table WHERE ... SET ...
        while True:
            if self.word("SET"):
                actions.append(self.assignment())
                while self.sign(","):
                    actions.append(self.assignment())
            elif self.word("REMOVE"):
                actions.append(Action("REMOVE", Path(self.path()), None))
                while self.sign(","):
                    actions.append(Action("REMOVE", Path(self.path()), None))
            else:
                break
        if not actions:
            self.fail("Expected data manipulation")
        if where is None:
            where = self.where()
        return UpdateTree(table, index, tuple(actions), where, self.returning())

    def delete(self) -> DeleteTree:
        self.expect_word("FROM")
        table, index = self.table()
        where = self.where()
        returning = self.returning()
        if returning not in (None, ("ALL", "OLD")):
            raise Refusal(
                f"Invalid returning clause: RETURNING {' '.join(returning or ())} *. "
                "Only RETURNING ALL OLD * is allowed in DELETE statements.",
                error.PARAMETER,
            )
        return DeleteTree(table, index, where, returning)

    def returning(self) -> tuple[str, str] | None:
        if not self.word("RETURNING"):
            return None
        which = "ALL" if self.word("ALL") else "MODIFIED" if self.word("MODIFIED") else ""
        image = "OLD" if self.word("OLD") else "NEW" if self.word("NEW") else ""
        if not which or not image:
            self.fail("Expected ALL or MODIFIED, OLD or NEW")
        self.expect_sign("*")
        return which, image

    # Assignments.

    def assignment(self) -> Action:
        target = Path(self.path())
        self.expect_sign("=")
        start = self.token
        if self.is_call() and start.text.lower() in ("set_add", "set_delete"):
            return self.set_assignment(target)
        value: Any = self.assigned()
        for sign in ("+", "-"):
            if self.sign(sign):
                value = Arithmetic(sign, value, self.assigned())
                break
        return Action("SET", target, value)

    def assigned(self) -> Any:
        """Take an operand of a SET: literal, parameter, path or function."""
        start = self.token
        if not self.is_call():
            return self.operand()
        function = start.text.lower()
        if function not in ("list_append", "if_not_exists"):
            raise self.unrecognized(start)
        arguments = self.arguments(self.assigned)
        if len(arguments) != 2:
            raise self.wrong_count(start)
        if function == "if_not_exists" and not isinstance(arguments[0], Path):
            raise Refusal(
                f"Operator or function requires a document path; operator or function: {function}",
                error.OPERAND,
            )
        return Call(function, tuple(arguments))

    def set_assignment(self, target: Path) -> Action:
        start = self.token
        name = start.text.upper()
        arguments = self.arguments(self.operand)
        if len(arguments) != 2:
            raise self.wrong_count(start)
        if arguments[0] != target:
            raise Refusal(
                f"The first argument to {name} must equal the assignment value {self.at(start)}",
                error.OPERAND,
            )
        members = arguments[1]
        is_set = isinstance(members, Constant) and isinstance(members.value, frozenset)
        if not is_set and not isinstance(members, Slot):
            raise Refusal(
                f"The second argument to {name} must be a value with type SET {self.at(start)}",
                error.OPERAND,
            )
        return Action("ADD" if name == "SET_ADD" else "DELETE", target, members)

    def wrong_count(self, start: Token) -> Refusal:
        return Refusal(
            f"{start.text.upper()} must have exactly two arguments {self.at(start)}",
            error.FUNCTION,
        )


def _negated(node: Any) -> Any:
    return node.operand if isinstance(node, Not) else Not(node)


def _flat(kind: type[And] | type[Or], terms: list[ConditionNode]) -> tuple[ConditionNode, ...]:
    flat: list[ConditionNode] = []
    for term in terms:
        flat.extend(term.terms if isinstance(term, kind) else (term,))
    return tuple(flat)
