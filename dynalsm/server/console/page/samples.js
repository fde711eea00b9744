// Figures of the engine over time: what the page has seen since it was opened.

const KEPT = 300;

/** The counters of one answer of /_console/api/stats that rates are made of. */
function countersOf({ engine, commit_waits: waits }) {
  return {
    commits: engine.writes.commits,
    syncs: engine.writes.syncs,
    gets: engine.reads.gets,
    userBytes: engine.writes.user_bytes,
    flushBytes: engine.writes.flush_bytes,
    compactedBytes: engine.compaction.written_bytes,
    hits: engine.cache.hits,
    misses: engine.cache.misses,
    stallSeconds: engine.stalls.seconds + engine.stalls.slowdown_seconds,
    waits: waits?.buckets || [],
  };
}

/** The time under which a share of the counted times lies; buckets have geometric bounds. */
export function quantile(buckets, bounds, share) {
  const total = buckets.reduce((sum, one) => sum + one, 0);
  if (!total) return null;
  let left = share * total;
  for (let index = 0; index < buckets.length; index += 1) {
    if (buckets[index] && left <= buckets[index]) {
      if (index === bounds.length) return bounds.at(-1);
      const low = index ? bounds[index - 1] : bounds[0] / 3;
      return low * (bounds[index] / low) ** (left / buckets[index]);
    }
    left -= buckets[index];
  }
  return bounds.at(-1);
}

/** Rates between two looks. */
function ratesOf(before, now, seconds, bounds) {
  const rates = {};
  for (const name of Object.keys(now)) {
    if (name !== "waits") rates[name] = Math.max(0, now[name] - before[name]) / seconds;
  }
  const waits = now.waits.map((one, index) => one - (before.waits[index] || 0));
  const blocks = now.hits - before.hits + now.misses - before.misses;
  return {
    ...rates,
    hitShare: blocks > 0 ? (now.hits - before.hits) / blocks : null,
    waitMedian: quantile(waits, bounds, 0.5),
    waitTail: quantile(waits, bounds, 0.99),
  };
}

/** What is not counted but measured at the moment. */
const gaugesOf = ({ engine }) => ({
  writeAmplification: engine.write_amplification || null,
  readAmplification: engine.read_amplification,
  spaceAmplification: engine.space_amplification,
  pendingBytes: engine.compaction.pending_bytes,
});

/** The newest looks at a server, and what happened between them. */
export class Samples {
  points = []; // { at, …rates }
  last = null;

  add(stats) {
    const now = { at: stats.now, counters: countersOf(stats) };
    const seconds = this.last ? now.at - this.last.at : 0;
    // A server that was started again counts from 0: its first look has no rates.
    const isAnother = this.last && now.counters.commits < this.last.counters.commits;
    if (seconds > 0 && !isAnother) {
      this.points.push({
        at: now.at,
        ...ratesOf(this.last.counters, now.counters, seconds, stats.bounds),
        ...gaugesOf(stats),
      });
      if (this.points.length > KEPT) this.points.shift();
    }
    this.last = now;
  }

  get newest() {
    return this.points.at(-1);
  }
}
