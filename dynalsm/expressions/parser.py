"""Text of a condition, projection or update to its parsed tree.

Parsing is recursive descent with the stack held in a list, so that nesting costs no Python
frames: 4096 opening parentheses are read like any other text. What the text alone makes wrong is
refused here, in DynamoDB's order (observed: dynalite); what needs names or values is left to
bind.py. Results are cached by text.

Thread safety: the parse functions may be called from any thread; results are immutable.
Invariants: (1) a parser never looks behind the END token; (2) every loop consumes a token.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NoReturn, TypeVar

from dynalsm.expressions import error
from dynalsm.expressions.ast import (
    MAX_CALL_DEPTH,
    MAX_EXPRESSION_BYTES,
    MAX_IN_OPERANDS,
    MAX_LIST_INDEX,
    MAX_OPERATORS,
    MAX_PATH_DEPTH,
    Action,
    And,
    Arithmetic,
    Between,
    Call,
    Compare,
    ConditionNode,
    In,
    NameRef,
    Not,
    Operand,
    Or,
    Path,
    ValueRef,
)
from dynalsm.expressions.cache import ClockCache
from dynalsm.expressions.error import Refusal
from dynalsm.expressions.lexer import END, syntax_message, tokenize
from dynalsm.expressions.reserved import is_reserved

CONDITION_FUNCTIONS: Final = {
    "attribute_exists": 1,
    "attribute_not_exists": 1,
    "attribute_type": 2,
    "begins_with": 2,
    "contains": 2,
    "size": 1,
}
UPDATE_FUNCTIONS: Final = {"if_not_exists": 2, "list_append": 2}
COMPARATORS: Final = frozenset(("=", "<>", "<", "<=", ">", ">="))
SECTIONS: Final = frozenset(("SET", "REMOVE", "ADD", "DELETE"))
_CONDITION_KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN"))
_LONGEST_KEYWORD: Final = 7
_OPERAND_FRAMES: Final = frozenset(("call", "in", "operand"))  # no condition can begin in these

_CACHE_BYTES: Final = 16 << 20
_ENTRY_BYTES: Final = 1500  # measured: a parsed tree costs about this plus _TOKEN_BYTES per token
_TOKEN_BYTES: Final = 150

# Problems the text alone shows, first match wins (observed: dynalite; places of the limits: own).
_CONDITION_ORDER: Final = ("parentheses", "limit", "function", "misused", "reserved")
_UPDATE_ORDER: Final = ("parentheses", "limit", "reserved", "function", "misused", "section")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed text: its tree and the placeholders it mentions, in order of first mention."""

    tree: Any  # ConditionNode, tuple[Path, ...] or tuple[Action, ...]
    names: tuple[str, ...]
    values: tuple[str, ...]


T = TypeVar("T")
_cache: ClockCache[Parsed] = ClockCache(_CACHE_BYTES)


def parse_condition(text: str, label: str = "ConditionExpression") -> Parsed:
    """Parse a condition, filter or key condition. Raises: Refusal."""
    return _parse(text, label, _ConditionParser)


def parse_projection(text: str, label: str = "ProjectionExpression") -> Parsed:
    """Parse a projection; the tree is a tuple of paths. Raises: Refusal."""
    return _parse(text, label, _ProjectionParser)


def parse_update(text: str, label: str = "UpdateExpression") -> Parsed:
    """Parse an update; the tree is a tuple of actions. Raises: Refusal."""
    return _parse(text, label, _UpdateParser)


def _parse(text: str, label: str, parser: Callable[[str, str], _Parser]) -> Parsed:
    key = (label, text)
    parsed = _cache.get(key)
    if parsed is None:
        check_size(text)
        if not text:
            raise Refusal("The expression can not be empty;", error.SYNTAX)
        work = parser(text, label)
        tree = work.parse()
        parsed = Parsed(tree, tuple(work.names), tuple(work.values))
        _cache.put(key, parsed, _ENTRY_BYTES + _TOKEN_BYTES * len(work.tokens) + len(text))
    return parsed


def check_size(text: str) -> None:
    """Refuse a text over 4096 bytes, before anything else is read of it."""
    size = len(text)
    if size * 4 > MAX_EXPRESSION_BYTES:  # otherwise it fits whatever its characters are
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_EXPRESSION_BYTES:
        raise Refusal(
            f"Expression size has exceeded the maximum allowed size; expression size: {size}",
            error.LIMIT,
        )


class _Frame:
    """What one pair of parentheses (or the whole text) has gathered so far."""

    __slots__ = ("arguments", "function", "kind", "left", "lower", "nots", "operator", "terms")

    def __init__(self, kind: str, function: str = "") -> None:
        self.kind = kind  # "root", "group", "operand", "call" or "in"
        self.function = function
        self.arguments: list[Any] = []  # of a call or an IN
        self.terms: list[list[ConditionNode]] = [[]]  # OR of ANDs
        self.nots = 0  # NOTs in front of the current term
        self.left: Any = None  # of the comparison being read
        self.operator = ""
        self.lower: Any = None  # of the BETWEEN being read


class _Parser:
    """What all grammars share: tokens, paths, placeholders, the list of problems."""

    grammar = ""  # as in "The function is not allowed in ... expression"

    def __init__(self, text: str, label: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0
        self.names: dict[str, None] = {}
        self.values: dict[str, None] = {}
        self.problems: dict[str, Refusal] = {}
        self.operators = 0

    def parse(self) -> Any:
        raise NotImplementedError

    def fail(self) -> NoReturn:
        """Refuse the token at the current position."""
        raise Refusal(syntax_message(self.text, self.position), error.SYNTAX)

    def problem(self, category: str, message: str, kind: str) -> None:
        """Note a problem; only the first of a category counts."""
        if category not in self.problems:
            self.problems[category] = Refusal(message, kind)

    def raise_problems(self, order: tuple[str, ...]) -> None:
        if self.problems:
            for category in order:
                if category in self.problems:
                    raise self.problems[category]

    def count_operator(self) -> None:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            self.problem(
                "limit",
                f"The expression contains too many operators; operator count: {self.operators}",
                error.LIMIT,
            )

    def value(self) -> ValueRef:
        """Read the `:value` at the current position."""
        token = self.tokens[self.position]
        if len(token) < 2 or token[0] != ":":
            self.fail()
        self.values[token] = None
        self.position += 1
        return ValueRef(token)

    def path(self) -> Path:
        """Read the path at the current position."""
        steps: list[Any] = [self.name()]
        if self.tokens[self.position] in (".", "["):
            self.path_tail(steps)
        return Path(tuple(steps))

    def path_tail(self, steps: list[Any]) -> None:
        """Read `.name` and `[index]` as long as there are any."""
        tokens = self.tokens
        while True:
            token = tokens[self.position]
            if token == ".":
                self.position += 1
                steps.append(self.name())
            elif token == "[":
                self.position += 1
                steps.append(self.index())
                if tokens[self.position] != "]":
                    self.fail()
                self.position += 1
            else:
                break
        if len(steps) > MAX_PATH_DEPTH:
            self.problem(
                "limit",
                f"The document path has too many nesting levels; nesting levels: {len(steps)}",
                error.LIMIT,
            )

    def index(self) -> int:
        token = self.tokens[self.position]
        if not token[:1].isdigit():
            self.fail()
        self.position += 1
        index = int(token)
        if index > MAX_LIST_INDEX:
            self.problem(
                "limit",
                f"List index is not within the allowable range; index: [{token}]",
                error.LIMIT,
            )
        return index

    def name(self) -> str | NameRef:
        token = self.tokens[self.position]
        first = token[:1]
        if first == "#" and len(token) > 1:
            self.position += 1
            self.names[token] = None
            return NameRef(token)
        if not first.isalpha() or self.is_keyword(token) or not first.isascii():
            self.fail()
        self.position += 1
        if is_reserved(token):
            self.problem(
                "reserved",
                f"Attribute name is a reserved keyword; reserved keyword: {token}",
                error.RESERVED,
            )
        return token

    def is_keyword(self, token: str) -> bool:
        return False

    def starts_call(self) -> bool:
        """Tell whether a bare name with an opening parenthesis behind it stands here."""
        token = self.tokens[self.position]
        return (
            token != END
            and self.tokens[self.position + 1] == "("
            and token[0].isalpha()
            and token[0].isascii()
            and not self.is_keyword(token)
        )

    def close_call(
        self, frame: _Frame, known: dict[str, int], other: dict[str, int], depth: int
    ) -> Call:
        """Make the call a frame has gathered; its name is judged here, its operands by bind."""
        function = frame.function
        if function not in known:
            if function in other:
                message = f"The function is not allowed in {self.grammar}; function: {function}"
            else:
                message = f"Invalid function name; function: {function}"
            self.problem("function", message, error.FUNCTION)
        elif depth > MAX_CALL_DEPTH:
            self.misused(function)
        return Call(function, tuple(frame.arguments))

    def misused(self, function: str) -> None:
        self.problem(
            "misused",
            "The function is not allowed to be used this way in an expression; function: "
            f"{function}",
            error.FUNCTION,
        )

    def redundant(self) -> None:
        self.problem("parentheses", "The expression has redundant parentheses;", error.PARENTHESES)


class _ConditionParser(_Parser):
    """`condition` of the grammar; used by ConditionExpression, FilterExpression, key conditions."""

    def __init__(self, text: str, label: str) -> None:
        super().__init__(text, label)
        self.grammar = (
            "a filter expression" if label == "FilterExpression" else ("a condition expression")
        )

    def is_keyword(self, token: str) -> bool:
        return len(token) <= _LONGEST_KEYWORD and token.upper() in _CONDITION_KEYWORDS

    def parse(self) -> ConditionNode:
        self.stack: list[_Frame] = []
        self.frame = _Frame("root")
        self.calls = 0  # nesting of calls around the current token
        while True:
            node = self.operand_start()
            if node is None:
                continue
            result = self.operand_end(node)
            if result is not None:
                self.raise_problems(_CONDITION_ORDER)
                return result

    def operand_start(self) -> Operand | None:
        """Read one thing where an operand must begin; None when more must follow first."""
        token = self.tokens[self.position]
        first = token[:1]
        frame = self.frame
        if first == ":":
            return self.value()
        if token == "(":
            only_operand = frame.operator or frame.kind in _OPERAND_FRAMES
            self.open(_Frame("operand" if only_operand else "group"))
            return None
        if self.starts_call():
            self.open(_Frame("call", token))
            self.position += 1
            self.calls += 1
            return None
        if first.isalpha() and self.is_keyword(token):
            if token.upper() != "NOT" or frame.operator or frame.kind in _OPERAND_FRAMES:
                self.fail()
            frame.nots += 1
            self.count_operator()
            self.position += 1
            return None
        return self.path()

    def open(self, frame: _Frame) -> None:
        self.stack.append(self.frame)
        self.frame = frame
        self.position += 1

    def operand_end(self, node: Any) -> ConditionNode | None:
        """Read what may follow a complete node; returns the tree at the end of the text."""
        grouped = False  # node stands in parentheses of its own
        while True:
            token = self.tokens[self.position]
            frame = self.frame
            if token in COMPARATORS:
                self.begin_comparison(node, token)
                return None
            if token == ")":
                node, grouped = self.close(node, grouped)
            elif token == "," and frame.kind in ("call", "in"):
                frame.arguments.append(self.argument(node))
                self.position += 1
                return None
            elif token == END:
                if self.stack:
                    self.fail()
                return self.finish(node)
            elif grouped and token in (".", "[") and isinstance(node, Path):
                steps = list(node.steps)
                self.path_tail(steps)
                node, grouped = Path(tuple(steps)), False
            elif self.keyword(node, token.upper()):
                return None
            else:
                self.fail()

    def keyword(self, node: Any, word: str) -> bool:
        """Handle AND, OR, BETWEEN, IN behind a node; False when it is none of them."""
        frame = self.frame
        if frame.kind in _OPERAND_FRAMES:
            return False
        if word == "AND":
            if frame.operator == "BETWEEN" and frame.lower is None:
                frame.lower = self.operand(node)
            else:
                self.count_operator()
                frame.terms[-1].append(self.term(node))
        elif word == "OR":
            self.count_operator()
            frame.terms[-1].append(self.term(node))
            frame.terms.append([])
        elif word == "BETWEEN":
            self.begin_comparison(node, word)
            return True
        elif word == "IN":
            self.begin_comparison(node, word)
            if self.tokens[self.position] != "(":
                self.fail()
            self.open(_Frame("in"))
            return True
        else:
            return False
        self.position += 1
        return True

    def begin_comparison(self, node: Any, operator: str) -> None:
        frame = self.frame
        if frame.operator or frame.kind in _OPERAND_FRAMES:
            self.fail()
        frame.left = self.operand(node)
        frame.operator = operator
        self.count_operator()
        self.position += 1

    def operand(self, node: Any) -> Any:
        """Refuse a condition where an operand must stand."""
        if not isinstance(node, (Path, ValueRef, Call)):
            self.fail()
        return node

    def argument(self, node: Any) -> Any:
        """An operand of a call or of IN; the only call it may be is size."""
        if isinstance(self.operand(node), Call) and node.function != "size":
            self.misused(node.function)
        return node

    def close(self, node: Any, grouped: bool) -> tuple[Any, bool]:
        """Handle the closing parenthesis at the current position."""
        frame = self.frame
        if not self.stack:
            self.fail()
        if frame.kind in ("group", "operand"):
            if not (frame.operator or frame.nots or len(frame.terms) > 1 or frame.terms[0]):
                if grouped:
                    self.redundant()
            else:
                node = self.disjunction(node)
            self.frame = self.stack.pop()
            self.position += 1
            return node, True
        frame.arguments.append(self.argument(node))
        if frame.kind == "call":
            node = self.close_call(frame, CONDITION_FUNCTIONS, UPDATE_FUNCTIONS, self.calls)
            self.calls -= 1
            self.frame = self.stack.pop()
        else:
            self.frame = self.stack.pop()
            node = self.comparison_in(frame.arguments)
        self.position += 1
        return node, False

    def comparison_in(self, options: list[Any]) -> In:
        frame = self.frame
        if len(options) + 1 > MAX_IN_OPERANDS:
            self.problem(
                "limit",
                "The IN operator is provided with too many operands; number of operands: "
                f"{len(options) + 1}",
                error.LIMIT,
            )
        node = In(self.argument(frame.left), tuple(options))
        frame.left, frame.operator = None, ""
        return node

    def term(self, node: Any) -> ConditionNode:
        """Complete the condition that ends with `node` in the current frame."""
        frame = self.frame
        if frame.operator:
            right = self.argument(node)
            if frame.operator == "BETWEEN":
                if frame.lower is None:
                    self.fail()
                node = Between(self.argument(frame.left), self.argument(frame.lower), right)
            else:
                node = Compare(frame.operator, self.argument(frame.left), right)
            frame.left, frame.operator, frame.lower = None, "", None
        elif isinstance(node, Call):
            if node.function == "size":
                self.misused(node.function)
            self.count_operator()
        elif isinstance(node, (Path, ValueRef)):
            self.fail()
        if frame.nots % 2:
            node = node.operand if isinstance(node, Not) else Not(node)
        frame.nots = 0
        return node  # type: ignore[no-any-return]

    def disjunction(self, node: Any) -> ConditionNode:
        """Complete everything in the current frame."""
        terms = self.frame.terms
        terms[-1].append(self.term(node))
        return _flat(Or, [_flat(And, ands) for ands in terms])

    def finish(self, node: Any) -> ConditionNode:
        return self.disjunction(node)


def _flat(kind: type[And] | type[Or], terms: list[ConditionNode]) -> ConditionNode:
    if len(terms) == 1:
        return terms[0]
    flat: list[ConditionNode] = []
    for term in terms:
        if isinstance(term, kind):
            flat.extend(term.terms)
        else:
            flat.append(term)
    return kind(tuple(flat))


class _ProjectionParser(_Parser):
    """`projection` of the grammar."""

    def parse(self) -> tuple[Path, ...]:
        paths = [self.path()]
        while self.tokens[self.position] == ",":
            self.position += 1
            paths.append(self.path())
        if self.tokens[self.position] != END:
            self.fail()
        self.raise_problems(_CONDITION_ORDER)
        return tuple(paths)


class _UpdateParser(_Parser):
    """`update` of the grammar."""

    grammar = "an update expression"

    def is_keyword(self, token: str) -> bool:
        return len(token) <= _LONGEST_KEYWORD and token.upper() in SECTIONS

    def parse(self) -> tuple[Action, ...]:
        actions: list[Action] = []
        seen: set[str] = set()
        while True:
            token = self.tokens[self.position]
            if not self.is_keyword(token):
                self.fail()
            section = token.upper()
            if section in seen:
                self.problem(
                    "section",
                    f'The "{section}" section can only be used once in an update expression;',
                    error.SECTION,
                )
            seen.add(section)
            self.position += 1
            self.section(section, actions)
            if self.tokens[self.position] == END:
                break
        self.raise_problems(_UPDATE_ORDER)
        return tuple(actions)

    def section(self, section: str, actions: list[Action]) -> None:
        while True:
            path = self.path()
            value: Any = None
            if section == "SET":
                if self.tokens[self.position] != "=":
                    self.fail()
                self.position += 1
                value = self.assigned()
            elif section != "REMOVE":
                value = self.value()
            actions.append(Action(section, path, value))
            if self.tokens[self.position] != ",":
                return
            self.position += 1

    def assigned(self) -> Operand | Arithmetic:
        """Read the right-hand side of a SET action."""
        self.stack: list[_Frame] = []
        self.frame = _Frame("root")
        self.in_arithmetic = False
        while True:
            node = self.operand_start()
            if node is None:
                continue
            result = self.operand_end(node)
            if result is not None:
                return result

    def operand_start(self) -> Operand | None:
        token = self.tokens[self.position]
        if token[:1] == ":":
            return self.value()
        if token == "(":
            self.open(_Frame("group"))
            return None
        if self.starts_call():
            self.open(_Frame("call", token))
            self.position += 1
            return None
        return self.path()

    def open(self, frame: _Frame) -> None:
        self.stack.append(self.frame)
        self.frame = frame
        self.position += 1

    def operand_end(self, node: Any) -> Operand | Arithmetic | None:
        grouped = False
        while True:
            token = self.tokens[self.position]
            frame = self.frame
            if token in ("+", "-"):
                self.begin_arithmetic(node, token)
                return None
            if token == "," and frame.kind == "call":
                frame.arguments.append(self.argument(node))
                self.position += 1
                return None
            if token == ")" and self.stack:
                node, grouped = self.close(node, grouped)
            elif self.stack:
                self.fail()
            else:
                result: Operand | Arithmetic = self.complete(node)
                return result

    def begin_arithmetic(self, node: Any, operator: str) -> None:
        """`+` or `-`: once in a value, never inside a function's parentheses."""
        if self.in_arithmetic or any(f.kind == "call" for f in (*self.stack, self.frame)):
            self.fail()
        self.in_arithmetic = True
        self.frame.left = node
        self.frame.operator = operator
        self.count_operator()
        self.position += 1

    def argument(self, node: Any) -> Any:
        """An argument of a call; list_append may not be one (observed: scylladb)."""
        if isinstance(node, Call) and node.function == "list_append":
            self.misused(node.function)
        return node

    def complete(self, node: Any) -> Any:
        frame = self.frame
        if frame.operator:
            node = Arithmetic(frame.operator, frame.left, node)
        return node

    def close(self, node: Any, grouped: bool) -> tuple[Any, bool]:
        frame = self.frame
        if frame.kind == "group":
            if grouped and not frame.operator:
                self.redundant()
            node, grouped = self.complete(node), True
        else:
            frame.arguments.append(self.argument(node))
            depth = len(self.stack)
            node = self.close_call(frame, UPDATE_FUNCTIONS, CONDITION_FUNCTIONS, depth)
            if depth == 1:
                self.count_operator()
            grouped = False
        self.frame = self.stack.pop()
        self.position += 1
        return node, grouped
