// Signature Version 4: the secret signs a request here, in the page, and is never sent.

import { hex, hmac, sha256 } from "./sha256.js";

const SERVICE = "dynamodb";

const quoted = (text) =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** "a=1&b=2", names in order, as it is both sent and signed. */
export const queryText = (query) =>
  Object.entries(query || {})
    .map(([name, value]) => [quoted(name), quoted(value)])
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map((pair) => pair.join("="))
    .join("&");

/** Return the headers to add to a request; `headers` (lower-case names) are signed. */
export async function sign({ method, host, path, query, headers, body, region, keys, now }) {
  const stamp = (now || new Date()).toISOString().replace(/[-:]|\.\d+/g, "");
  const scope = `${stamp.slice(0, 8)}/${region}/${SERVICE}/aws4_request`;
  const signed = { ...headers, host, "x-amz-date": stamp };
  const names = Object.keys(signed).sort();
  const canonical = [
    method,
    path,
    query || "",
    ...names.map((name) => `${name}:${signed[name]}`),
    "",
    names.join(";"),
    hex(await sha256(body || "")),
  ].join("\n");
  const text = ["AWS4-HMAC-SHA256", stamp, scope, hex(await sha256(canonical))].join("\n");
  let key = `AWS4${keys.secret}`;
  for (const part of scope.split("/")) key = await hmac(key, part);
  const signature = hex(await hmac(key, text));
  return {
    "x-amz-date": stamp,
    authorization: `AWS4-HMAC-SHA256 Credential=${keys.id}/${scope}, SignedHeaders=${names.join(";")}, Signature=${signature}`,
  };
}
