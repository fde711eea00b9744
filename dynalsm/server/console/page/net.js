// Every request of the page: operations of the DynamoDB endpoint, and the console's own calls.

import { queryText, sign } from "./sigv4.js";

const HOME = new URL("./", import.meta.url);
const ENDPOINT = new URL("../", HOME);
const KEPT = "dynalsm.keys";

/** What the server has said of itself and of who asks. */
export const session = { needs_keys: false, region: "us-east-1", version: "", known: false };

let keys = null;
try {
  keys = JSON.parse(sessionStorage.getItem(KEPT));
} catch {
  // No storage: the keys live as long as the page.
}

/** An answer that is an error, or no answer at all. */
export class CallError extends Error {
  constructor(code, message, status = 0, reply = {}) {
    super(message);
    this.code = code;
    this.status = status;
    this.reply = reply;
  }
}

async function send(url, method, headers, body, signal) {
  const signed = keys
    ? await sign({
        method,
        host: url.host,
        path: url.pathname,
        query: url.search.slice(1),
        headers,
        body,
        region: session.region,
        keys,
      })
    : {};
  let answer;
  let text;
  try {
    answer = await fetch(url, {
      method,
      body,
      signal,
      headers: { ...headers, ...signed },
      cache: "no-store",
      redirect: "error",
    });
    text = await answer.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new CallError("No answer", "The server cannot be reached. Is it still running?");
  }
  let reply = {};
  try {
    reply = text ? JSON.parse(text) : {};
  } catch {
    throw new CallError(`HTTP ${answer.status}`, text.slice(0, 300), answer.status);
  }
  if (answer.ok) return reply;
  const code = String(reply.__type || `HTTP ${answer.status}`)
    .split("#")
    .pop();
  throw new CallError(
    code,
    reply.message || reply.Message || "The server gave no reason.",
    answer.status,
    reply,
  );
}

/** Run a DynamoDB operation. */
export function call(operation, request, signal) {
  const service = /^(ListStreams|DescribeStream|GetShardIterator|GetRecords)$/.test(operation)
    ? "DynamoDBStreams_20120810"
    : "DynamoDB_20120810";
  const headers = {
    "content-type": "application/x-amz-json-1.0",
    "x-amz-target": `${service}.${operation}`,
  };
  return send(ENDPOINT, "POST", headers, JSON.stringify(request), signal);
}

/** Ask one of the console's own questions. */
export function ask(name, query, signal) {
  const url = new URL(`api/${name}`, HOME);
  url.search = queryText(query);
  return send(url, "GET", { "x-amz-target": `DynalsmConsole.${name}` }, undefined, signal);
}

/** Learn what server this is; true when it may be used as it is. */
export async function greet() {
  Object.assign(session, { key: null, path: "", durability: "" }, await ask("session"));
  session.known = !session.needs_keys || Boolean(session.key);
  return session.known;
}

/** Sign with these keys from now on; throws what the server says to them. */
export async function signIn(id, secret, isKept) {
  keys = { id, secret };
  try {
    await greet();
    if (isKept) sessionStorage.setItem(KEPT, JSON.stringify(keys));
  } catch (error) {
    keys = null;
    throw error;
  }
}

export function signOut() {
  keys = null;
  try {
    sessionStorage.removeItem(KEPT);
  } catch {
    // Nothing was kept.
  }
  session.known = !session.needs_keys;
  session.key = null;
}

export const hasKeys = () => keys !== null;
