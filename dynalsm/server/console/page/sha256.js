// SHA-256 and HMAC: WebCrypto where the browser has it (https and this machine), else the plain
// algorithm of FIPS 180-4, so that the console also signs over http on a network of one's own.

const text = new TextEncoder();
const toBytes = (data) => (typeof data === "string" ? text.encode(data) : data);
const subtle = globalThis.crypto?.subtle;

export const hex = (data) => Array.from(data, (one) => one.toString(16).padStart(2, "0")).join("");

export async function sha256(data) {
  if (!subtle) return plainSha256(toBytes(data));
  return new Uint8Array(await subtle.digest("SHA-256", toBytes(data)));
}

export async function hmac(key, data) {
  if (!subtle) return plainHmac(toBytes(key), toBytes(data));
  const use = { name: "HMAC", hash: "SHA-256" };
  const made = await subtle.importKey("raw", toBytes(key), use, false, ["sign"]);
  return new Uint8Array(await subtle.sign("HMAC", made, toBytes(data)));
}

// The first 32 bits of the fractional parts of the roots of the first primes.
function roots(howMany, power) {
  const found = [];
  for (let number = 2; found.length < howMany; number += 1) {
    let isPrime = true;
    for (let factor = 2; factor * factor <= number; factor += 1) {
      if (number % factor === 0) isPrime = false;
    }
    if (isPrime) found.push(Math.floor((number ** power % 1) * 2 ** 32) | 0);
  }
  return found;
}

const ROUND = roots(64, 1 / 3);
const START = roots(8, 1 / 2);
const turn = (word, by) => (word >>> by) | (word << (32 - by));

export function plainSha256(data) {
  const blocks = Math.ceil((data.length + 9) / 64);
  const padded = new Uint8Array(blocks * 64);
  padded.set(data);
  padded[data.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 8, Math.floor(data.length / 2 ** 29));
  view.setUint32(padded.length - 4, (data.length << 3) >>> 0);
  const state = Int32Array.from(START);
  const words = new Int32Array(64);
  for (let block = 0; block < blocks; block += 1) {
    for (let i = 0; i < 16; i += 1) words[i] = view.getInt32(block * 64 + i * 4);
    mix(state, words);
  }
  const sum = new DataView(new ArrayBuffer(32));
  state.forEach((word, i) => sum.setInt32(i * 4, word));
  return new Uint8Array(sum.buffer);
}

function mix(state, words) {
  for (let i = 16; i < 64; i += 1) {
    const early = words[i - 15];
    const late = words[i - 2];
    const low = turn(early, 7) ^ turn(early, 18) ^ (early >>> 3);
    const high = turn(late, 17) ^ turn(late, 19) ^ (late >>> 10);
    words[i] = words[i - 16] + low + words[i - 7] + high;
  }
  let [a, b, c, d, e, f, g, last] = state;
  for (let i = 0; i < 64; i += 1) {
    const big = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
    const one = (last + big + ((e & f) ^ (~e & g)) + ROUND[i] + words[i]) | 0;
    const small = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
    const two = (small + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    [a, b, c, d, e, f, g, last] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
  }
  [a, b, c, d, e, f, g, last].forEach((word, i) => {
    state[i] += word;
  });
}

export function plainHmac(key, data) {
  const block = new Uint8Array(64);
  block.set(key.length > 64 ? plainSha256(key) : key);
  const inner = plainSha256(
    join(
      block.map((one) => one ^ 0x36),
      data,
    ),
  );
  return plainSha256(
    join(
      block.map((one) => one ^ 0x5c),
      inner,
    ),
  );
}

function join(first, second) {
  const joined = new Uint8Array(first.length + second.length);
  joined.set(first);
  joined.set(second, first.length);
  return joined;
}
