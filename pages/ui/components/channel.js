// The browser's end of the live channel (pages/channel): panels that change while no script runs, and requests for a script
// run, which wait until the visitor is idle. Without a connection the page reruns once a second while something runs.

const VERSION = 1; // of pages/channel/live.py
const ROOT = new URL("../../..", import.meta.url); // this file is served three folders below the app
const RUN = "gdm:run"; // a script has run to its end
const RETRY_MS = 1000;
const ALONE_AFTER = 3; // failed connections
const SHOWN_MS = 100; // a page in the background draws nothing
const SETTLED_MS = 300; // after a run, until all that its script drew is there
const IDLE_MS = 700; // without a key, a click or a touch
const BUSY_MS = 10_000; // at most, while a button is held down or a page opens

const panels = new Map(); // by key: { draw, drawn }
const note = Object.assign(document.createElement("p"), { className: "gdm-quiet", hidden: true, role: "status" });
const line = { socket: null, address: "", failed: 0, number: 0, ask: null, moves: false, timer: 0, onTables: null };
window.gdmChannel = line; // for tests

// Have `draw` called with new content of the panel `key`; `drawn` returns a promise that it is on the screen.
export function onMessage(key, draw, drawn = () => null) {
  const panel = { draw, drawn };
  panels.set(key, panel);
  return () => panels.get(key) === panel && panels.delete(key);
}

// Have `draw` called with tables for a slider (slider_preview.js).
export function onTables(draw) {
  line.onTables = draw;
}

export function send(type, fields = {}) {
  if (line.socket?.readyState === WebSocket.OPEN) line.socket.send(JSON.stringify({ v: VERSION, type, ...fields }));
}

function drawAll(changed) {
  return Object.entries(changed).map(([key, part]) => {
    const panel = panels.get(key);
    panel?.draw(part);
    return panel?.drawn();
  });
}

// Content that came after a run is newer than what its script drew, and may have been drawn before it.
function drawNewest(run) {
  if (line.runs === run && line.newest?.run === run) drawAll(line.newest.parts);
}

const RECEIVERS = {
  parts: async ({ number, run, parts }) => {
    line.number = number;
    line.newest = { run, parts: run === line.newest?.run ? { ...line.newest.parts, ...parts } : parts };
    const drawn = drawAll(parts);
    await Promise.race([Promise.allSettled(drawn).then(frame), pause(SHOWN_MS * 20)]);
    send("drawn", { number });
  },
  moves: ({ run, moves }) => Object.assign(line, { moves, movesOf: run }),
  run: ({ why }) => askWhenIdle(why),
  tables: (message) => line.onTables?.(message),
};

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const frame = () => Promise.race([new Promise(requestAnimationFrame), pause(SHOWN_MS)]);

// ---- script runs, while the visitor is idle ---------------------------------------------------------------------
// Of two requests that wait for the same run, Streamlit keeps one: ours must not replace a click or a change of page.
let busyUntil = 0;
const busyFor = (ms) => (busyUntil = performance.now() + ms);
const leaves = ({ type, target }) => type === "popstate" || (type === "click" && target.closest?.("a[href]"));
for (const name of ["pointerdown", "pointerup", "pointercancel", "click", "keydown", "input", "popstate"])
  window.addEventListener(name, (event) => busyFor(event.type === "pointerdown" || leaves(event) ? BUSY_MS : IDLE_MS), true);

function askWhenIdle(why) {
  clearTimeout(line.asking);
  const left = busyUntil - performance.now();
  if (left > 0) line.asking = setTimeout(askWhenIdle, Math.min(left, IDLE_MS), why);
  else line.ask?.(why);
}

// ---- outdated content -------------------------------------------------------------------------------------------
// A slider of the sidebar has moved: the page shows the fit of an earlier value until a run has ended.
window.addEventListener("gdm:slider", ({ detail: { key, settled, held, live } }) => {
  if (!document.querySelector(`.gdm-slider[data-name="${CSS.escape(key)}"]`)?.closest("[data-testid=stSidebar]")) return;
  if (settled && !held) setCurrent();
  if (settled) return;
  document.documentElement.dataset.gdmWaiting = held && live ? "" : "alone"; // alone: no script draws this value
  line.held = held;
});

function setCurrent() {
  line.held = false;
  delete document.documentElement.dataset.gdmWaiting;
}

// Wide tables scroll on a phone, also by keys; another theme draws them anew.
setInterval(() => {
  for (const box of document.querySelectorAll("[data-testid=stTable] > div:not([tabindex])")) box.tabIndex = 0;
}, 1000);

// ---- the connection ---------------------------------------------------------------------------------------------
function connect() {
  if (line.socket || !line.address) return;
  const address = new URL(line.address.slice(1), ROOT);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = (line.socket = new WebSocket(address));
  socket.onopen = () => send("present");
  socket.onmessage = ({ data }) => {
    setFailed(0); // not when it opens: a proxy may end it at once
    const message = JSON.parse(data);
    if (message.v === VERSION) RECEIVERS[message.type]?.(message);
  };
  socket.onclose = () => {
    if (line.socket !== socket) return;
    line.socket = null;
    setFailed(line.failed + 1);
    setTimeout(connect, RETRY_MS);
  };
}

function setFailed(count) {
  line.failed = count;
  note.hidden = count < ALONE_AFTER;
  clearInterval(line.timer);
  if (!note.hidden) line.timer = setInterval(() => line.moves && askWhenIdle("alone"), RETRY_MS);
}

export default function ({ data, parentElement, setTriggerValue }) {
  if (note.parentElement !== parentElement) parentElement.replaceChildren(note);
  note.textContent = data.words;
  window.onbeforeunload = data.unsaved ? (event) => event.preventDefault() : null;
  const { socket } = line;
  const [changed, ended] = [data.address !== line.address, data.runs !== line.runs];
  if (line.movesOf !== data.runs) line.moves = data.moves; // the channel may be faster than the script
  Object.assign(line, { address: data.address, runs: data.runs });
  if (ended) {
    clearTimeout(line.asking); // the server asks again if it still needs a run
    busyUntil = Math.min(busyUntil, performance.now() + IDLE_MS);
    window.dispatchEvent(new CustomEvent(RUN));
    setTimeout(drawNewest, SETTLED_MS, data.runs);
    if (!line.held) setCurrent();
  }
  line.ask = (why) => setTriggerValue("run", `${data.runs} ${why}`); // one request per run: an equal value is none
  parentElement.dataset.runs = data.runs;
  if (changed) {
    line.socket = null;
    socket?.close();
    setFailed(0);
  }
  connect();
}
