// Draws of the Gumbel-Softmax of three states, and the figure of them on a triangle: what simplex.js moves. The same as
// gdm_core.maths.relaxed and gdm_studio/plot/figures/track.py work out on the server.

export const ROOT3 = Math.sqrt(3) / 2;
const EDGE = 0.01;
const HELD = [0.9, 0.7, 0.5, 0.3, 0.1]; // shares of draws inside the lines of the shading, as on the server
const GRID = 72;
const MANY = 3000; // draws that the lines are found from

// ---- the distribution -----------------------------------------------------------------------------------------
// Soft states, one after the other, of noise given in the same way.
export function draws(logits, tau, scale, noise) {
  const z = new Float64Array(noise.length);
  for (let i = 0; i < noise.length; i += 3) {
    const u = [0, 1, 2].map((k) => (logits[k] + scale * noise[i + k]) / tau);
    const top = Math.max(...u);
    const e = u.map((v) => Math.exp(v - top));
    const sum = e[0] + e[1] + e[2];
    for (let k = 0; k < 3; k++) z[i + k] = e[k] / sum;
  }
  return z;
}

export function inside(z) {
  const moved = new Float64Array(z.length);
  for (let i = 0; i < z.length; i += 3) {
    const up = [0, 1, 2].map((k) => Math.max(z[i + k], EDGE));
    const sum = up[0] + up[1] + up[2];
    for (let k = 0; k < 3; k++) moved[i + k] = up[k] / sum;
  }
  return moved;
}

// On the simplex, up to a constant: the lines lie where they hold their shares of the draws, whatever it is.
function logDensity(z, logits, tau, scale) {
  const found = new Float64Array(z.length / 3);
  for (let i = 0; i < found.length; i++) {
    let sum = 0, logs = 0, powers = 0;
    for (let k = 0; k < 3; k++) {
      const log = Math.log(z[3 * i + k]);
      const u = (logits[k] - tau * log) / scale;
      sum += u;
      powers += Math.exp(u);
      logs += log;
    }
    found[i] = sum - 3 * Math.log(powers) - logs;
  }
  return found;
}

export const across = (z, i) => z[3 * i + 1] + 0.5 * z[3 * i + 2];
export const up = (z, i) => ROOT3 * z[3 * i + 2];
const column = (z, where) => Float64Array.from({ length: z.length / 3 }, (_, i) => where(z, i));

function quantile(sorted, share) {
  const at = share * (sorted.length - 1);
  const low = Math.floor(at);
  return sorted[low] + (at - low) * (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]);
}

function line(low, high) {
  return Float64Array.from({ length: GRID }, (_, i) => low + (i * (high - low)) / (GRID - 1));
}

// An axis of the grid over most of the draws, with a margin.
function around(places, most) {
  const sorted = places.sort();
  const [low, high] = [0.002, 0.998].map((share) => quantile(sorted, share));
  const margin = 0.15 * (high - low) + 0.01;
  return line(Math.max(low - margin, 0), Math.min(high + margin, most));
}

// Values on a scale where the levels are 1, 2, ...: contours are drawn at equal steps alone.
function banded(values, levels) {
  const steps = [];
  levels.forEach((level, i) => steps.push(Math.max(level + 1e-9 * i, steps[i - 1] ?? -Infinity)));
  steps.unshift(2 * steps[0] - steps[1]);
  steps.push(2 * steps.at(-1) - steps.at(-2));
  return values.map((value) => {
    if (value <= steps[0]) return 0;
    if (value >= steps.at(-1)) return steps.length - 1;
    const above = steps.findIndex((step) => step > value);
    return above - 1 + (value - steps[above - 1]) / (steps[above] - steps[above - 1]);
  });
}

function shading({ logit, softness, noise }, many) {
  const spread = inside(draws(logit, softness, noise, many));
  const levels = logDensity(spread, logit, softness, noise).sort();
  const x = around(column(spread, across), 1);
  const y = around(column(spread, up), ROOT3);
  const grid = new Float64Array(3 * GRID * GRID);
  for (let row = 0; row < GRID; row++) {
    for (let i = 0; i < GRID; i++) {
      const top = y[row] / ROOT3;
      const second = x[i] - 0.5 * top;
      grid.set([1 - second - top, second, top], 3 * (row * GRID + i));
    }
  }
  const density = logDensity(inside(grid), logit, softness, noise);
  const z = banded(density, HELD.map((share) => quantile(levels, 1 - share)));
  return { x, y, z: Array.from({ length: GRID }, (_, row) => z.subarray(row * GRID, (row + 1) * GRID)) };
}

// ---- the picture ----------------------------------------------------------------------------------------------
// The figure of the server with everything in it that follows the settings.
export function picture(figure, sources, now) {
  const z = draws(now.logit, now.softness, now.noise, sources.dots);
  const hollow = draws(now.other, now.softness, now.noise, sources.hollow);
  const isDots = ({ mode, marker }) => mode === "markers" && marker.symbol !== "circle-open";
  const look = figure.data.find(isDots);
  const data = figure.data.filter((trace) => !isDots(trace)).map((trace) => {
    if (trace.type === "contour") return { ...trace, ...shading(now, sources.many) };
    if (trace.mode === "markers") return { ...trace, ...places(hollow, [...Array(hollow.length / 3).keys()]) };
    return trace;
  });
  return { ...figure, data: data.concat(dots(z, look, sources.colours)) };
}

function places(z, which) {
  const shares = (i) => [0, 1, 2].map((k) => Math.round(100 * z[3 * i + k]));
  return { x: which.map((i) => across(z, i)), y: which.map((i) => up(z, i)), customdata: which.map(shares) };
}

export function colourOf(z, i, { steps, table }) {
  const first = Math.round(steps * z[3 * i]);
  return table[first][Math.min(steps - first, Math.round(steps * z[3 * i + 1]))];
}

// One trace a colour. `colours` are those of a grid of shares.
function dots(z, look, { steps, table }) {
  const groups = new Map();
  for (let i = 0; i < z.length / 3; i++) {
    const colour = colourOf(z, i, { steps, table });
    if (!groups.has(colour)) groups.set(colour, []);
    groups.get(colour).push(i);
  }
  return [...groups].map(([color, which]) => ({ ...look, ...places(z, which), marker: { ...look.marker, color } }));
}

// Standard Gumbel noise that is the same on every visit.
function gumbel(n) {
  let seed = 1;
  return Float64Array.from({ length: 3 * n }, () => {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    return -Math.log(-Math.log((seed + 0.5) / 2 ** 32));
  });
}

export const MANY_NOISE = gumbel(MANY);
