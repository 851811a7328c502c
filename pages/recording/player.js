// Two skeletons on a canvas, over the clock of pages/ui/player.js, which stands above this. Keypoints come once, packed as
// whole numbers; the clock counts frames.

const STATES = "gdm:states"; // of a slider that is held (pages/ui/components/held.js): shown until they are null
const MISSING = -32768;
const TRAIL_S = 4;
// The first two animals differ in colour; those after them, who share the second one's, in their lines and hollow dots.
const DASHES = [[], [7, 5], [2, 5]];
const HEIGHT = { wide: 300, narrow: 230 };

function unpack(data) {
  const raw = bytes(data.xy);
  return {
    ...data,
    xy: new Int16Array(raw.buffer),
    rgb: bytes(data.rgb),
    strength: bytes(data.strength),
    expert: bytes(data.expert),
    state: bytes(data.state),
  };
}

// ---- where things are at a moment -----------------------------------------------------------------------------
function place(data, frame, animal, part) {
  const { parts, animals } = data;
  const at = (f, c) => data.xy[((f * animals.length + animal) * 2 + c) * parts.length + part];
  const before = Math.floor(frame);
  const after = Math.min(before + 1, data.n - 1);
  const [x0, y0, x1, y1] = [at(before, 0), at(before, 1), at(after, 0), at(after, 1)];
  if (x0 === MISSING || y0 === MISSING) return null;
  if (x1 === MISSING || y1 === MISSING) return [x0, y0];
  const share = frame - before;
  return [x0 + (x1 - x0) * share, y0 + (y1 - y0) * share];
}

function centre(data, frame, animal) {
  let [x, y, n] = [0, 0, 0];
  for (let part = 0; part < data.parts.length; part++) {
    const at = place(data, frame, animal, part);
    if (at) [x, y, n] = [x + at[0], y + at[1], n + 1];
  }
  return n ? [x / n, y / n] : null;
}

// Colours and bouts of frame `f`: of the slider that is held, or the server's.
function found(view, f) {
  const { data, held } = view;
  const from = held ?? data;
  const i = held ? Math.min(Math.floor((f * data.stride) / held.stride), held.strength.length - 1) : f;
  return { rgb: from.rgb?.subarray(3 * i, 3 * i + 3), strength: from.strength?.[i], state: (from.state || undefined)?.[i] };
}

// ---- drawing --------------------------------------------------------------------------------------------------
function draw(view) {
  const { canvas, data } = view;
  const began = performance.now();
  canvas.style.height = `${canvas.clientWidth < 520 ? HEIGHT.narrow : HEIGHT.wide}px`;
  const on = paper(view);
  if (!on) return;
  const { pen, width, height } = on;
  const ink = getComputedStyle(canvas).color;
  const muted = getComputedStyle(view.time).color;
  const [left, top, right, bottom] = data.box;
  const pad = 12;
  const scale = Math.min((width - 2 * pad) / (right - left), (height - 2 * pad) / (bottom - top));
  const toScreen = ([x, y]) => [
    width / 2 + (x - (left + right) / 2) * scale,
    height / 2 + (y - (top + bottom) / 2) * scale,
  ];
  frameBox(pen, toScreen, data.box, muted);
  for (let animal = 0; animal < data.animals.length; animal++) trail(pen, view, toScreen, animal, muted);
  for (let animal = data.animals.length - 1; animal >= 0; animal--) {
    skeleton(pen, view, toScreen, animal, animal === 0 ? ink : muted, DASHES[Math.max(0, animal - 1) % DASHES.length]);
  }
  words(view);
  canvas.dataset.drawMs = (performance.now() - began).toFixed(2);
  canvas.dataset.frame = view.at.toFixed(1);
}

function frameBox(pen, toScreen, [left, top, right, bottom], colour) {
  const [x0, y0] = toScreen([left, top]);
  const [x1, y1] = toScreen([right, bottom]);
  pen.globalAlpha = 0.25;
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
  pen.globalAlpha = 1;
}

function trail(pen, view, toScreen, animal, muted) {
  const { data, at: frame } = view;
  const last = Math.floor(frame);
  const first = Math.max(0, last - Math.round(TRAIL_S / data.step));
  pen.lineWidth = animal === 0 ? 5 : 2.5;
  let before = null;
  for (let f = first; f <= last; f++) {
    const at = centre(data, f, animal);
    if (before && at) {
      const age = (f - first) / Math.max(1, last - first);
      const { rgb, strength = 153 } = found(view, f);
      pen.strokeStyle = rgb ? `rgb(${rgb})` : muted;
      pen.globalAlpha = 0.15 + (0.75 * age * strength) / 255;
      pen.beginPath();
      pen.moveTo(...toScreen(before));
      pen.lineTo(...toScreen(at));
      pen.stroke();
    }
    before = at;
  }
  pen.globalAlpha = 1;
}

function skeleton(pen, view, toScreen, animal, colour, dash) {
  const { data, at: frame } = view;
  const points = data.parts.map((_, part) => place(data, frame, animal, part)).map((at) => at && toScreen(at));
  pen.strokeStyle = colour;
  pen.fillStyle = colour;
  pen.lineWidth = animal === 0 ? 2.6 : 2;
  pen.setLineDash(dash);
  for (const [a, b] of data.edges) {
    if (!points[a] || !points[b]) continue;
    pen.beginPath();
    pen.moveTo(...points[a]);
    pen.lineTo(...points[b]);
    pen.stroke();
  }
  pen.setLineDash([]);
  points.forEach((at, part) => {
    if (!at) return;
    pen.beginPath();
    pen.arc(at[0], at[1], part === 0 ? 4.6 : 2.8, 0, 2 * Math.PI);
    if (dash.length) pen.stroke();
    else pen.fill();
  });
}

function words(view) {
  const { data } = view;
  const f = Math.round(view.at);
  const seconds = data.start + f * data.step;
  view.time.textContent = `${seconds.toFixed(1)} s`;
  view.scrub.value = String(f);
  chip(view.expert, "expert", data.expert?.[f], data.expertNames, data.expertColours);
  chip(view.found, "model", found(view, f).state, data.names, data.colours);
}

function chip(place, who, code, names, colours) {
  const known = names?.[code] !== undefined;
  const key = `${who}:${known ? code : ""}:${names?.[code] ?? ""}`;
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  place.hidden = code === undefined;
  place.textContent = "";
  const dot = document.createElement("i");
  dot.style.background = known ? colours[code] : "transparent";
  place.append(dot, `${who}: ${known ? names[code] : "none"}`);
}

function jumpButtons(view) {
  const { data, jumps } = view;
  jumps.textContent = "";
  jumps.hidden = !data.state;
  if (!data.state) return;
  const label = document.createElement("span");
  label.textContent = "Next bout of";
  jumps.append(label);
  const present = new Set(data.state);
  data.names.forEach((name, k) => {
    if (!present.has(k)) return;
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.state = k;
    const dot = document.createElement("i");
    dot.style.background = data.colours[k];
    button.append(dot, name);
    button.onclick = () => {
      setPlaying(view, false);
      seek(view, nextBout(data.state, k, Math.round(view.at)), true);
    };
    jumps.append(button);
  });
}

function nextBout(states, k, from) {
  const n = states.length;
  for (let i = 1; i <= n; i++) {
    const f = (from + i) % n;
    if (states[f] === k && (f === 0 || states[f - 1] !== k)) return f;
  }
  return from;
}

function dress(view) {
  const { data } = view;
  view.animals.textContent = "";
  data.animals.forEach((name, animal) => {
    const item = document.createElement("span");
    item.className = animal === 0 ? "first" : "other";
    item.append(document.createElement("i"), name);
    if (animal > 1) item.classList.add(animal % DASHES.length === 2 ? "dashed" : animal % DASHES.length === 0 ? "dotted" : "plain");
    view.animals.append(item);
  });
  jumpButtons(view);
  for (const place of [view.expert, view.found]) place.dataset.shown = "";
}

function held(view) {
  const shows = ({ detail }) => {
    view.held = detail;
    if (view.data) draw(view);
  };
  return { [STATES]: shows };
}

export default player({
  of: "recording",
  words: ["Play poses", "Pause poses"],
  keys: { ArrowRight: 1, ArrowLeft: -1, PageDown: 30, PageUp: -30 },
  follow: true,
  decode: unpack,
  begin: (data) => Math.min(data.n - 1, Math.round(TRAIL_S / data.step)), // the first moment with a whole trail
  end: (data) => data.n - 1,
  rate: (data) => 1 / data.step,
  cursor: ({ data, at }) => data.start + at * data.step,
  moment: ({ data }, time) => (time - data.start) / data.step,
  dress,
  draw,
  listens: held,
});
