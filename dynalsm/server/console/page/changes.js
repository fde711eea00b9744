// The stream of a table, followed as it is written.

import { cell, details, nameOf } from "./cells.js";
import { announce, choice, empty, h, problem, show, toast } from "./dom.js";
import { clock, count, plural } from "./format.js";
import { call, session } from "./net.js";
import { hasStream, tableKeys } from "./schema.js";
import { loadTables } from "./state.js";
import { isEqual } from "./values.js";

const EVERY_MS = 700;
const RECORDS = 200; // of one request
const KEPT = 500; // on the page; older ones go
const KINDS = { INSERT: "new", MODIFY: "changed", REMOVE: "deleted" };

export function changesView(box, table) {
  if (!hasStream(table)) {
    show(box, offer(table));
    return null;
  }
  const follower = new Follower(table);
  const list = h("ol", { class: "changes", "aria-label": "Changes, newest first" });
  const note = h("p", { class: "size" });
  const failed = h("div");
  const light = h("span", { class: "light", "aria-hidden": "true" });
  let paused = false;
  let total = 0;
  let timer = null;
  let ended = false;

  const pause = h(
    "button",
    {
      type: "button",
      onclick: () => {
        paused = !paused;
        pause.textContent = paused ? "Go on" : "Pause";
        light.classList.toggle("off", paused);
        if (!paused) turn();
        else clearTimeout(timer);
      },
    },
    "Pause",
  );
  const begin = choice(
    "From",
    [
      ["LATEST", "From now on"],
      ["TRIM_HORIZON", "From the beginning"],
    ],
    "LATEST",
    (place) => {
      follower.begin(place);
      total = 0;
      show(list);
      if (paused) pause.click();
      else turn();
    },
  );

  async function turn() {
    clearTimeout(timer);
    const mine = follower.start;
    try {
      const records = await follower.read();
      if (ended || mine !== follower.start) return;
      add(records);
      show(failed);
      light.classList.remove("bad");
    } catch (error) {
      if (ended || mine !== follower.start) return;
      light.classList.add("bad");
      show(failed, problem(error));
    }
    note.textContent = total
      ? `${plural(total, "change")}${total > KEPT ? `, the newest ${count(KEPT)} are shown` : ""}`
      : "Nothing has changed yet. Write to the table and look here.";
    clearTimeout(timer);
    if (!paused) timer = setTimeout(turn, follower.isBehind ? 0 : EVERY_MS);
  }

  function add(records) {
    if (!records.length) return;
    total += records.length;
    list.prepend(...records.toReversed().map((record) => entry(table, record)));
    while (list.children.length > KEPT) list.lastElementChild.remove();
    announce(plural(records.length, "change"));
  }

  show(box, h("div", { class: "row result-bar" }, begin, pause, light, note), failed, list);
  turn();
  return () => {
    ended = true;
    clearTimeout(timer);
  };
}

/** Reads all shards of a stream; a shard waits until its parent is read to the end. */
class Follower {
  constructor(table) {
    this.arn = table.LatestStreamArn;
    this.begin("LATEST");
  }

  begin(place) {
    this.start = { place }; // a new object: answers to older questions are thrown away
    this.shards = null; // shard id → { parent, place, iterator, last, isDone }
    this.isBehind = false;
  }

  async read() {
    const { start } = this;
    const shards = this.shards || (await this.describe(new Map(), start.place));
    if (start !== this.start) return [];
    this.shards = shards;
    const due = [...shards].filter(
      ([, one]) => !one.isDone && (shards.get(one.parent)?.isDone ?? true),
    );
    const answers = await Promise.all(due.map(([id, one]) => this.readShard(id, one)));
    if (due.some(([, one]) => one.isDone)) await this.describe(shards, "TRIM_HORIZON");
    this.isBehind =
      answers.some((records) => records.length >= RECORDS) || due.some(([, one]) => one.isDone);
    return answers
      .flat()
      .sort((a, b) => bySequence(a.dynamodb.SequenceNumber, b.dynamodb.SequenceNumber));
  }

  /** Add the shards that are not known yet. */
  async describe(shards, place) {
    let last;
    do {
      const { StreamDescription: stream } = await call("DescribeStream", {
        StreamArn: this.arn,
        ExclusiveStartShardId: last,
      });
      for (const {
        ShardId: id,
        ParentShardId: parent,
        SequenceNumberRange: range,
      } of stream.Shards) {
        const isOver = place === "LATEST" && Boolean(range.EndingSequenceNumber);
        if (!shards.has(id))
          shards.set(id, { parent, place, iterator: null, last: null, isDone: isOver });
      }
      last = stream.LastEvaluatedShardId;
    } while (last);
    return shards;
  }

  async readShard(id, shard) {
    shard.iterator ||= await this.iterator(id, shard);
    let reply;
    try {
      reply = await call("GetRecords", { ShardIterator: shard.iterator, Limit: RECORDS });
    } catch (error) {
      // An iterator lives for minutes, a pause may be longer: the next turn takes a new one.
      if (error.code === "ExpiredIteratorException") shard.iterator = null;
      throw error;
    }
    shard.iterator = reply.NextShardIterator;
    shard.isDone = !reply.NextShardIterator;
    shard.last = reply.Records.at(-1)?.dynamodb.SequenceNumber || shard.last;
    return reply.Records;
  }

  async iterator(id, { place, last }) {
    const request = {
      StreamArn: this.arn,
      ShardId: id,
      ShardIteratorType: last ? "AFTER_SEQUENCE_NUMBER" : place,
    };
    if (last) request.SequenceNumber = last;
    return (await call("GetShardIterator", request)).ShardIterator;
  }
}

const bySequence = (a, b) => a.length - b.length || (a < b ? -1 : a > b ? 1 : 0);

function entry(table, { eventName, dynamodb: change, userIdentity }) {
  const names = tableKeys(table).map(([name]) => name);
  const { Keys: keys, OldImage: old, NewImage: image } = change;
  const more = h("div");
  const box = h(
    "details",
    {
      ontoggle: () => {
        if (!more.hasChildNodes()) show(more, images(old, image, keys, names));
      },
    },
    h(
      "summary",
      {},
      h("span", { class: `tag event ${eventName}` }, KINDS[eventName] || eventName),
      h("span", { class: "change-key" }, nameOf(keys, names)),
      userIdentity && h("span", { class: "tag" }, "by time to live"),
      h("span", { class: "size" }, summary(old, image, names)),
      h("time", { class: "size push" }, clock(change.ApproximateCreationDateTime)),
    ),
    more,
  );
  return h("li", {}, box);
}

const differing = (old, image) =>
  [...new Set([...Object.keys(old), ...Object.keys(image)])].filter(
    (name) =>
      !isEqual(
        Object.hasOwn(old, name) ? old[name] : undefined,
        Object.hasOwn(image, name) ? image[name] : undefined,
      ),
  );

function summary(old, image, names) {
  if (old && image) {
    const changed = differing(old, image);
    return changed.length
      ? `${changed.slice(0, 4).join(", ")}${changed.length > 4 ? ", …" : ""}`
      : "";
  }
  const whole = image || old;
  return whole ? plural(Object.keys(whole).length - names.length, "attribute") : "";
}

function images(old, image, keys, names) {
  if (old && image) {
    const changed = differing(old, image);
    const value = (item, name) =>
      h(
        "td",
        {},
        h("div", { class: "clip" }, cell(Object.hasOwn(item, name) ? item[name] : undefined)),
      );
    return h(
      "div",
      { class: "grid-box", tabindex: "0", role: "region", "aria-label": "What has changed" },
      h(
        "table",
        { class: "grid" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            ["Attribute", "Before", "After"].map((one) => h("th", { scope: "col" }, one)),
          ),
        ),
        h(
          "tbody",
          {},
          changed.map((name) =>
            h("tr", {}, h("th", { scope: "row" }, name), value(old, name), value(image, name)),
          ),
        ),
      ),
    );
  }
  return details(image || old || keys, names);
}

function offer(table) {
  const failed = h("div");
  const enable = async () => {
    try {
      await call("UpdateTable", {
        TableName: table.TableName,
        StreamSpecification: { StreamEnabled: true, StreamViewType: "NEW_AND_OLD_IMAGES" },
      });
      toast("The stream is on");
      await loadTables();
      dispatchEvent(new HashChangeEvent("hashchange"));
    } catch (error) {
      show(failed, problem(error));
    }
  };
  return empty(
    "This table has no stream",
    "With a stream, every change of an item can be followed here as it happens.",
    !session.read_only &&
      h("button", { type: "button", class: "primary", onclick: enable }, "Switch it on"),
    failed,
  );
}
