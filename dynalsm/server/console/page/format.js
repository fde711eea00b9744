// Numbers as people read them.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];
const whole = new Intl.NumberFormat("en-US");

/** 12,345 */
export const count = (number) => whole.format(Math.round(number));

/** Three significant digits at most, with k, M, G. */
export function short(number) {
  if (!Number.isFinite(number)) return "–";
  const size = Math.abs(number);
  for (const [limit, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e4, "k"],
  ]) {
    if (size >= limit) return `${digits(number / (limit === 1e4 ? 1e3 : limit))}${unit}`;
  }
  return digits(number);
}

function digits(number) {
  const size = Math.abs(number);
  if (size >= 100 || number === 0) return whole.format(Math.round(number));
  return String(Number(number.toPrecision(size >= 10 ? 3 : 2)));
}

/** 1.5 MiB */
export function bytes(number) {
  let unit = 0;
  let value = Number(number) || 0;
  while (value >= 1024 && unit < UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${unit ? digits(value) : Math.round(value)} ${UNITS[unit]}`;
}

/** 350 µs, 1.2 ms, 3 s, 4 min */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds === 0) return "0 s";
  if (seconds < 1e-3) return `${digits(seconds * 1e6)} µs`;
  if (seconds < 1) return `${digits(seconds * 1e3)} ms`;
  if (seconds < 120) return `${digits(seconds)} s`;
  if (seconds < 7200) return `${digits(seconds / 60)} min`;
  return `${digits(seconds / 3600)} h`;
}

export const percent = (share) => (Number.isFinite(share) ? `${digits(share * 100)} %` : "–");

/** 14:03:27 of today, or with the date. */
export function clock(seconds) {
  const at = new Date(seconds * 1000);
  const time = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString()
    ? time
    : `${at.toLocaleDateString("en-CA")} ${time}`;
}

export const plural = (number, word, words = `${word}s`) =>
  `${count(number)} ${number === 1 ? word : words}`;
