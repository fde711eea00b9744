// JSON with exact numbers, and mistakes that know where they are.
// Objects become Maps (a name may be "__proto__"), numbers become Exact.

/** A number as it was written. */
export class Exact {
  constructor(text) {
    this.text = text;
  }
}

/** What is wrong with a text; `at` is the place in it. */
export class Mistake extends Error {
  constructor(message, at = null) {
    super(message);
    this.at = at;
  }
}

const DEPTH = 64;
const NUMBER = /-?\d+(\.\d+)?([eE][+-]?\d+)?/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;
const SPACE = /[ \t\r\n]*/y;
const WORDS = [
  ["true", true],
  ["false", false],
  ["null", null],
];

/** Line and column, from 1. */
export function placeOf(text, at) {
  const before = text.slice(0, at).split("\n");
  return { line: before.length, column: before.at(-1).length + 1 };
}

export function parse(text) {
  let at = 0;
  let depth = 0;

  function match(pattern) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found === null) return null;
    at = pattern.lastIndex;
    return found[0];
  }

  function next() {
    match(SPACE);
    return text[at];
  }

  function expect(sign, what) {
    if (next() !== sign) fail(what);
    at += 1;
  }

  function fail(what) {
    const found = at < text.length ? `“${[...text.slice(at, at + 2)][0]}”` : "the end";
    throw new Mistake(`${what}, but there is ${found}`, at);
  }

  function string() {
    const start = at;
    const found = match(STRING);
    if (found === null)
      throw new Mistake("This text does not end, or has a sign that must be escaped", start);
    return JSON.parse(found);
  }

  function object() {
    const made = new Map();
    at += 1;
    if (next() === "}") {
      at += 1;
      return made;
    }
    for (;;) {
      if (next() !== '"') fail('A name in "quotes" is expected');
      const start = at;
      const name = string();
      if (made.has(name)) throw new Mistake(`“${name}” stands here for the second time`, start);
      expect(":", "A colon is expected");
      made.set(name, value());
      if (next() === ",") at += 1;
      else {
        expect("}", "A comma or } is expected");
        return made;
      }
    }
  }

  function array() {
    const made = [];
    at += 1;
    if (next() === "]") {
      at += 1;
      return made;
    }
    for (;;) {
      made.push(value());
      if (next() === ",") at += 1;
      else {
        expect("]", "A comma or ] is expected");
        return made;
      }
    }
  }

  function value() {
    const sign = next();
    if (sign === '"') return string();
    if (sign === "{" || sign === "[") {
      if (depth === DEPTH) throw new Mistake(`Nested more than ${DEPTH} deep`, at);
      depth += 1;
      const made = sign === "{" ? object() : array();
      depth -= 1;
      return made;
    }
    for (const [word, meaning] of WORDS) {
      if (text.startsWith(word, at)) {
        at += word.length;
        return meaning;
      }
    }
    const number = match(NUMBER);
    if (number === null) fail("A value is expected");
    return new Exact(number);
  }

  const made = value();
  if (next() !== undefined) fail("Nothing more is expected");
  return made;
}
