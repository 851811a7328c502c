// Soft states at a value of a setting, and their quantised colours, as in palette.py.

const MOST_CELLS = 800;
const ROUNDS = 3;
const TYPES = { f4: Float32Array, f8: Float64Array, u1: Uint8Array };

// Unpack an array of figures/base.py; return other values as they are.
export function decode(array) {
  if (!array?.bdata) return array;
  const text = atob(array.bdata);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = text.charCodeAt(i); // ten times as fast as Uint8Array.from
  return new TYPES[array.dtype](bytes.buffer);
}

// ---- states ---------------------------------------------------------------------------------------------------
// Return [S * K] soft states of a part at `value`, interpolated between its neighbours among `values`.
export function statesAt(part, values, value) {
  const [, length, k] = part.shape;
  if (part.labels) return oneHot(labelsAt(part, values, value), k);
  const inside = Math.min(Math.max(value, values[0]), values.at(-1));
  const above = Math.max(0, values.findIndex((each) => each >= inside)), below = Math.max(0, above - 1);
  const share = above > below ? (inside - values[below]) / (values[above] - values[below]) : 0;
  const { states } = part;
  const size = length * k;
  const mixed = new Float32Array(size);
  for (let i = 0, low = below * size, high = above * size; i < size; i++) {
    mixed[i] = (states[low + i] + share * (states[high + i] - states[low + i])) / 255;
  }
  return mixed;
}

// Return [S] labels at the nearest of `values`.
export function labelsAt({ labels, shape: [, length] }, values, value) {
  const far = values.map((each) => Math.abs(each - value));
  const at = far.indexOf(Math.min(...far));
  return labels.subarray(at * length, (at + 1) * length);
}

function oneHot(labels, k) {
  const found = new Float32Array(labels.length * k);
  labels.forEach((label, i) => label < k && (found[i * k + label] = 1));
  return found;
}

export function averaged(states, k, width) {
  const rows = states.length / k;
  const found = new Float32Array(Math.ceil(rows / width) * k);
  for (let i = 0; i < found.length / k; i++) {
    const last = Math.min((i + 1) * width, rows);
    for (let row = i * width; row < last; row++) {
      for (let j = 0; j < k; j++) found[i * k + j] += states[row * k + j] / (last - i * width);
    }
  }
  return found;
}

// ---- colours, as palette.py mixes and quantises them -----------------------------------------------------------
function features(states, { lab }) {
  const k = lab.length;
  const found = new Float64Array((4 * states.length) / k);
  for (let i = 0; i < found.length / 4; i++) {
    let top = 0;
    for (let j = 0; j < k; j++) {
      const share = states[i * k + j];
      for (let c = 0; c < 3; c++) found[4 * i + c] += share * lab[j][c];
      if (share > top) top = share;
    }
    found[4 * i + 3] = 0.35 * top;
  }
  return found;
}

function cellsOf(feature, size) {
  const known = new Map();
  const cellOf = new Uint32Array(feature.length / 4);
  for (let i = 0; i < cellOf.length; i++) {
    let code = 0;
    for (let c = 0; c < 4; c++) code = code * 128 + Math.floor(feature[4 * i + c] / size + 0.5) + 64;
    if (!known.has(code)) known.set(code, known.size);
    cellOf[i] = known.get(code);
  }
  const rank = new Map([...known.keys()].sort((a, b) => a - b).map((code, i) => [known.get(code), i]));
  return { cellOf: cellOf.map((cell) => rank.get(cell)), n: known.size };
}

function nearest(centres, mean) {
  let best = 0, least = Infinity;
  centres.forEach((centre, i) => {
    const far = centre.reduce((sum, v, c) => sum + (v - mean[c]) ** 2, 0);
    if (far < least) [best, least] = [i, far];
  });
  return best;
}

// Return { index [T], css } with at most `limit` colours.
export function quantise(states, mixing, limit) {
  const feature = features(states, mixing);
  let size = 0.03;
  let cells = cellsOf(feature, size);
  while (cells.n > MOST_CELLS) cells = cellsOf(feature, (size *= 1.6));
  const count = new Float64Array(cells.n);
  const mean = Array.from({ length: cells.n }, () => [0, 0, 0, 0]);
  cells.cellOf.forEach((cell, i) => {
    count[cell] += 1;
    for (let c = 0; c < 4; c++) mean[cell][c] += feature[4 * i + c];
  });
  mean.forEach((sum, cell) => (mean[cell] = sum.map((v) => v / count[cell])));
  const fullest = [...count.keys()].sort((a, b) => count[b] - count[a] || a - b).slice(0, limit);
  let centres = fullest.sort((a, b) => a - b).map((cell) => mean[cell]);
  for (let round = 0; round < (cells.n > limit ? ROUNDS : 0); round++) {
    const weight = centres.map(() => 0);
    const sums = centres.map(() => [0, 0, 0, 0]);
    mean.forEach((at, cell) => {
      const here = nearest(centres, at);
      weight[here] += count[cell];
      at.forEach((v, c) => (sums[here][c] += count[cell] * v));
    });
    centres = centres.map((centre, i) => (weight[i] ? sums[i].map((v) => v / weight[i]) : centre));
  }
  const bucketOf = mean.map((at) => nearest(centres, at));
  return { index: cells.cellOf.map((cell) => bucketOf[cell]), css: centres.map((centre) => css(centre, mixing)) };
}

// Return the colour of each sample: { rgb [3 * S], strength [S] }.
export function mixed(states, mixing) {
  const feature = features(states, mixing);
  const n = feature.length / 4;
  const found = { rgb: new Uint8Array(3 * n), strength: new Uint8Array(n) };
  for (let i = 0; i < n; i++) {
    const [r, g, b, strength] = bytes(feature.subarray(4 * i, 4 * i + 4), mixing);
    found.rgb.set([r, g, b], 3 * i);
    found.strength[i] = strength;
  }
  return found;
}

function bytes([l, a, b, top], { from_lab, from_lms }) {
  const times = (matrix, [x, y, z]) => matrix.map((row) => row[0] * x + row[1] * y + row[2] * z);
  const linear = times(from_lms, times(from_lab, [l, a, b]).map((v) => v ** 3));
  const found = linear.map((v) => {
    const light = Math.min(Math.max(v, 0), 1);
    return Math.floor(255 * (light <= 0.0031308 ? 12.92 * light : 1.055 * light ** (1 / 2.4) - 0.055) + 0.5);
  });
  return [...found, Math.round(255 * Math.min(Math.max(top / 0.35, 0), 1))];
}

const css = (feature, mixing) => `#${bytes(feature, mixing).map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;

// Return a colour "#rrggbbaa" of soft states in the theme: opaque over grey in a dark one, as in palette.py.
export function overUndecided(colour, { undecided }) {
  if (!undecided || colour.endsWith("00")) return colour; // missing states stay transparent
  const [alpha, ...channels] = [7, 1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
  const below = [1, 3, 5].map((at) => parseInt(undecided.slice(at, at + 2), 16));
  const mixed = channels.map((value, i) => Math.round((alpha * value + (255 - alpha) * below[i]) / 255));
  return `#${mixed.map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
