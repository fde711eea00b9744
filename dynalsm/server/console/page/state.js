// What several views share: the list of tables, asked for again when it may have changed.

import { ask } from "./net.js";

let known = null;
const listeners = new Set();

/** The tables as last seen; null before the first answer. */
export const tablesNow = () => known;

/** Ask for the tables. */
export async function loadTables() {
  known = (await ask("tables")).tables;
  for (const listener of listeners) listener(known);
  return known;
}

export const forgetTables = () => {
  known = null;
};

export function onTables(listener) {
  listeners.add(listener);
}

/** The description of one table, from the newest list; undefined when there is none. */
export async function findTable(name) {
  const found = (known || (await loadTables())).find((one) => one.TableName === name);
  return found || (await loadTables()).find((one) => one.TableName === name);
}
