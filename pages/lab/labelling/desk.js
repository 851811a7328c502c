// The labelling desk: a timeline of the chosen trial on which keys, buttons and drags label stretches. The browser holds
// the trial's marks, [start, stop, label] in frames, and sends the whole list; the page answers with the list that it keeps.

const ANNOUNCE = "gdm:cursor";
const WHERE = "gdm:where"; // asks the player for its time
const WINDOW_S = 20; // shown at first; at least 1 s
const DOUBT = 0.6 * 255; // a most probable label below it is doubtful
const SEND_MS = 400; // quick changes go together, since each message runs the page
const AGAIN_MS = 2500; // a message that the page missed is sent again
const TYPING = "input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable=true], [role=dialog] *";
const JUMPS = { n: "doubt", u: "unlabelled" };

function build(parent) {
  const view = { at: null, open: null, selection: null, marks: [], span: null, sent: 0, gone: new AbortController() };
  view.place = Object.fromEntries([...parent.querySelectorAll("[data-role]")].map((one) => [one.dataset.role, one]));
  view.line = view.place.line;
  const clicks = {
    wider: () => zoom(view, 2),
    closer: () => zoom(view, 0.5),
    whole: () => zoom(view, Infinity),
    undo: () => undo(view),
  };
  for (const name of Object.values(JUMPS)) clicks[name] = () => jump(view, name);
  for (const [name, act] of Object.entries(clicks)) view.place[name].onclick = act;
  for (const [kind, act] of Object.entries(POINTER)) view.line.addEventListener(kind, (event) => act(view, event));
  const cursor = ({ detail }) => {
    if (detail.group !== view.data.group || detail.from === view || detail.time === null) return;
    view.at = inside(view, detail.time);
    draw(view);
  };
  window.addEventListener(ANNOUNCE, cursor, { signal: view.gone.signal });
  window.addEventListener("keydown", (event) => press(view, event), { signal: view.gone.signal });
  view.resize = new ResizeObserver(() => draw(view));
  view.resize.observe(view.line);
  return view;
}

const inside = ({ data }, time) => Math.min(Math.max(time, data.begin), data.end);
const frameAt = ({ data }, time) => Math.min(data.n, Math.max(0, Math.round((time - data.begin) / data.step)));
const timeAt = ({ data }, frame) => data.begin + data.step * frame;
const colour = ({ data }, label) => data.colours[Math.min(data.names.indexOf(label), data.colours.length - 1)];

// The player's time until the user moves the cursor.
function present(view) {
  if (view.at !== null) return view.at;
  const detail = { group: view.data.group, time: null };
  window.dispatchEvent(new CustomEvent(WHERE, { detail }));
  return inside(view, detail.time ?? view.data.begin);
}

// ---- keys ---------------------------------------------------------------------------------------------------------
function press(view, event) {
  const target = event.composedPath()[0];
  if (!view.line.isConnected || !view.place.on.checked || event.altKey || event.defaultPrevented) return;
  if (!target.closest?.(TYPING) && pressed(view, event)) event.preventDefault();
}

function pressed(view, event) {
  const { data } = view;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) return key === "z" && undo(view);
  if (key === "," || key === ".") return go(view, timeAt(view, frameAt(view, present(view)) + (key === "," ? -1 : 1)));
  if (event.repeat) return false;
  if (key === "Escape" && (view.open || view.selection)) {
    view.open = view.selection = null;
    return tell(view);
  }
  if (JUMPS[key]) return jump(view, JUMPS[key]);
  // By position as well, since digits need a modifier on some keyboards.
  const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? key;
  const label = /^[1-9]$/.test(digit) && data.names[digit - 1];
  return label ? choose(view, label) : false;
}

// ---- marks --------------------------------------------------------------------------------------------------------
// Label the selection; else begin a stretch here, or end the open one.
function choose(view, label) {
  if (!view.data.fitted) return tell(view);
  if (view.selection) return mark(view, ...view.selection.map((time) => frameAt(view, time)), label);
  const { open } = view;
  const frame = frameAt(view, present(view));
  if (open && !mark(view, Math.min(open.frame, frame), Math.max(open.frame, frame), open.label)) return true;
  view.open = open?.label === label ? null : { label, frame };
  return tell(view);
}

function mark(view, start, stop, label) {
  const clash = view.marks.find(([from, to, other]) => other !== label && from < stop && start < to);
  if (stop - start < 2) tell(view, "A labelled stretch has at least 2 frames.");
  else if (clash) tell(view, `Part of this stretch is already labelled “${clash[2]}”. Remove that label first.`);
  else return change(view, [...view.marks, [start, stop, label]]);
  return false;
}

function undo(view) {
  return view.marks.length > 0 && change(view, view.marks.slice(0, -1));
}

function change(view, marks) {
  [view.marks, view.selection] = [marks, null];
  sendAfter(view, SEND_MS);
  return refresh(view);
}

function sendAfter(view, wait) {
  clearTimeout(view.timer);
  view.timer = setTimeout(() => send(view), wait);
}

function send(view) {
  clearTimeout(view.timer);
  view.timer = 0;
  const { trial, revision } = view.data;
  view.sent += 1; // the same value twice is no message
  view.setStateValue("marks", { trial, revision, marks: view.marks, number: view.sent });
}

// ---- moving -------------------------------------------------------------------------------------------------------
const POINTER = {
  pointerdown(view, event) {
    view.drag = { time: timeUnder(view, event), x: event.offsetX, shown: shown(view), moved: false };
    view.line.setPointerCapture(event.pointerId);
  },
  pointermove(view, event) {
    const { drag } = view;
    if (!drag || (!drag.moved && Math.abs(event.offsetX - drag.x) < 4)) return;
    drag.moved = true;
    view.selection = [drag.time, timeUnder(view, event)].sort((a, b) => a - b);
    tell(view);
  },
  pointerup(view) {
    const { drag } = view;
    view.drag = null;
    if (drag && !drag.moved) go(view, drag.time);
  },
  pointercancel: (view) => (view.drag = null),
};

function timeUnder(view, { offsetX }) {
  const { from, span } = shown(view);
  return inside(view, from + (offsetX / view.line.clientWidth) * span);
}

function go(view, time) {
  view.at = inside(view, time);
  const detail = { group: view.data.group, time: view.at, from: view, follow: true };
  window.dispatchEvent(new CustomEvent(ANNOUNCE, { detail }));
  return draw(view);
}

function zoom(view, factor) {
  const { data } = view;
  const whole = data.end - data.begin;
  view.span = Math.min(whole, Math.max(Math.min(whole, data.perSecond), shown(view).span * factor));
  draw(view);
}

// Go to the next doubtful or unlabelled stretch, from the last one to the first.
function jump(view, name) {
  const { data, labelled, sure } = view;
  if (name === "doubt" && !sure) return tell(view, "No predictions yet: label stretches of two labels.");
  const holds = (f) => (name === "doubt" ? sure[f] < DOUBT : labelled[f] === 0);
  const n = labelled.length;
  const from = Math.min(n - 1, Math.floor(frameAt(view, present(view)) / data.stride));
  const next = nextRun(n, from, holds);
  if (next !== null) return go(view, timeAt(view, next * data.stride));
  return tell(view, name === "doubt" ? "No doubtful stretch." : "Everything is labelled.");
}

// ---- drawing ------------------------------------------------------------------------------------------------------
function refresh(view) {
  const { data, place, marks } = view;
  view.labelled = new Uint8Array(Math.ceil(data.n / data.stride));
  for (const [start, stop] of marks) view.labelled.fill(1, Math.ceil(start / data.stride), Math.ceil(stop / data.stride));
  const names = JSON.stringify(data.names);
  if (place.labels.dataset.names !== names) {
    place.labels.dataset.names = names;
    place.labels.replaceChildren(...data.names.map((label, i) => button(view, label, i + 1)));
  }
  place.undo.disabled = !marks.length;
  view.line.dataset.marks = marks.length;
  return tell(view);
}

function button(view, label, key) {
  const made = Object.assign(document.createElement("button"), { type: "button", onclick: () => choose(view, label) });
  made.dataset.label = label;
  const hint = Object.assign(document.createElement("kbd"), { textContent: key });
  made.append(...(key < 10 ? [hint] : []), dot(colour(view, label)), label);
  return made;
}

function tell(view, wrong = "") {
  const { data, open, place } = view;
  for (const one of place.labels.children) one.setAttribute("aria-pressed", String(open?.label === one.dataset.label));
  let text = "Press a label to start and end a stretch, or drag over the timeline.";
  if (wrong) text = wrong;
  else if (!data.fitted) text = "Held-out trials cannot be labelled: they test the labels.";
  else if (!data.names.length) text = "Add a label first.";
  else if (view.selection) text = "Press the label of the selected stretch.";
  else if (open) text = `“${open.label}” from ${timeAt(view, open.frame).toFixed(1)} ${data.unit}: press it again to end.`;
  place.message.toggleAttribute("data-wrong", Boolean(wrong));
  if (place.message.textContent !== text) place.message.textContent = text;
  return draw(view);
}

// The part of the recording on the timeline.
function shown(view) {
  if (view.drag) return view.drag.shown;
  const { data } = view;
  const span = Math.min(data.end - data.begin, view.span ?? WINDOW_S * data.perSecond);
  return { span, from: Math.min(Math.max(present(view) - span / 2, data.begin), data.end - span) };
}

function draw(view) {
  const { line, data, place, open, expert, sure, rgb } = view;
  const sheet = paper({ canvas: line });
  if (!sheet) return true;
  const { pen, width } = sheet;
  const at = present(view);
  const { from, span } = shown(view);
  const { color } = getComputedStyle(line);
  const bar = (begin, end, fill, alpha, top, bottom) => {
    pen.globalAlpha = alpha;
    pen.fillStyle = fill;
    const [left, right] = [begin, end].map((time) => Math.round(((time - from) / span) * width));
    pen.fillRect(left, top, Math.max(1, right - left), bottom - top);
    pen.globalAlpha = 1;
  };
  const strip = (look, top, bottom) => {
    const wide = Math.max(span / width, data.step * data.stride);
    for (let time = data.begin + Math.floor((from - data.begin) / wide) * wide; time < from + span; time += wide) {
      const f = Math.min(view.labelled.length - 1, Math.round((time - data.begin) / data.step / data.stride));
      bar(time, time + wide, ...look(f), top, bottom);
    }
  };
  if (rgb) strip((f) => [`rgb(${rgb.subarray(3 * f, 3 * f + 3)})`, 0.15 + 0.85 * (sure[f] / 255)], 36, 54);
  if (expert) strip((f) => [data.colours[expert[f]], expert[f] === 255 ? 0 : 1], 58, 70); // 255 is no label
  for (const [start, stop, label] of view.marks) bar(timeAt(view, start), timeAt(view, stop), colour(view, label), 1, 6, 32);
  if (open) bar(...[timeAt(view, open.frame), at].sort((a, b) => a - b), colour(view, open.label), 0.75, 2, 36);
  if (view.selection) bar(...view.selection, color, 0.22, 0, 74);
  axis(view, pen, width, from, span);
  bar(at, at + (2 * span) / width, color, 1, 0, 76);
  place.now.textContent = `${at.toFixed(2)} ${data.unit} · frame ${frameAt(view, at)}`;
  place.window.textContent = `${span >= 10 ? Math.round(span) : span.toFixed(1)} ${data.unit}`;
  return true;
}

function axis({ place, line }, pen, width, from, span) {
  const most = (span / width) * 80; // a number about every 80 pixels
  const ten = 10 ** Math.floor(Math.log10(most));
  const step = [1, 2, 5, 10].map((k) => k * ten).find((size) => size >= most);
  pen.fillStyle = getComputedStyle(place.now).color;
  pen.font = `11px ${getComputedStyle(line).fontFamily}`;
  for (let time = Math.ceil(from / step) * step; time <= from + span; time += step) {
    const x = ((time - from) / span) * width;
    pen.fillRect(x, 73, 1, 5);
    if (x < width - 24) pen.fillText(time.toFixed(step < 1 ? 1 : 0), x + 3, 87);
  }
}

// ---- data from the page -------------------------------------------------------------------------------------------
export default function ({ data, parentElement, setStateValue }) {
  const view = (parentElement.gdmDesk ??= build(parentElement));
  const another = view.data?.trial !== data.trial;
  if (another && view.timer) send(view);
  const newer = another || view.data.revision !== data.revision;
  const unheard = !newer && JSON.stringify(data.marks) !== JSON.stringify(view.marks);
  Object.assign(view, { data, setStateValue });
  for (const name of ["expert", "sure", "rgb"]) view[name] = unpacked(data[name]);
  if (another) [view.at, view.open, view.selection] = [null, null, null];
  if (newer) view.marks = data.marks;
  if (unheard && !view.timer) sendAfter(view, AGAIN_MS);
  if (data.clip && view.clip !== data.clip.number) {
    view.clip = data.clip.number;
    view.selection = [timeAt(view, data.clip.start), timeAt(view, data.clip.stop)];
    go(view, view.selection[0]);
  }
  refresh(view);
  // Streamlit also calls this when newer data arrives while the desk stays.
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmDesk !== view) return;
  clearTimeout(view.timer);
  view.resize.disconnect();
  view.gone.abort();
  delete parentElement.gdmDesk;
}
