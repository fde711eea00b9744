// What a write says of the item that it found, so that nobody's change is lost.

import { isEqual } from "./values.js";

// An expression is at most 4 KiB and 300 operators long.
const CONDITION_ATTRIBUTES = 140;

/** What an update must say to turn `old` into `item`, where `old` is still there. */
export function changeOf(old, item, keyNames) {
  const names = [...new Set([...Object.keys(old), ...Object.keys(item)])].filter(
    (name) => !keyNames.includes(name),
  );
  const changed = names.filter((name) => !isEqual(own(old, name), own(item, name)));
  const request = { ExpressionAttributeNames: {}, ExpressionAttributeValues: {} };
  const conditions = [];
  const set = [];
  const remove = [];
  request.ExpressionAttributeNames["#k"] = keyNames[0];
  conditions.push("attribute_exists(#k)");
  changed.forEach((name, index) => {
    const attribute = `#${index}`;
    request.ExpressionAttributeNames[attribute] = name;
    conditions.push(was(request, old, name, attribute, index));
    if (Object.hasOwn(item, name)) {
      request.ExpressionAttributeValues[`:n${index}`] = item[name];
      set.push(`${attribute}=:n${index}`);
    } else remove.push(attribute);
  });
  request.UpdateExpression = [
    set.length && `SET ${set.join(",")}`,
    remove.length && `REMOVE ${remove.join(",")}`,
  ]
    .filter(Boolean)
    .join(" ");
  request.ConditionExpression = conditions.join(" AND ");
  return { changed, request: tidy(request) };
}

/** The condition that an item is still as it was seen. */
export function unchanged(old, keyNames) {
  const request = {
    ExpressionAttributeNames: { "#k": keyNames[0] },
    ExpressionAttributeValues: {},
  };
  const names = Object.keys(old)
    .filter((name) => !keyNames.includes(name))
    .slice(0, CONDITION_ATTRIBUTES);
  request.ConditionExpression = [
    "attribute_exists(#k)",
    ...names.map((name, index) => {
      request.ExpressionAttributeNames[`#${index}`] = name;
      return was(request, old, name, `#${index}`, index);
    }),
  ].join(" AND ");
  return tidy(request);
}

const own = (item, name) => (Object.hasOwn(item, name) ? item[name] : undefined);

function was(request, old, name, attribute, index) {
  if (!Object.hasOwn(old, name)) return `attribute_not_exists(${attribute})`;
  request.ExpressionAttributeValues[`:o${index}`] = old[name];
  return `${attribute}=:o${index}`;
}

function tidy(request) {
  if (!Object.keys(request.ExpressionAttributeValues).length)
    delete request.ExpressionAttributeValues;
  return request;
}
