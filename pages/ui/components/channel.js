// The browser's end of the live channel (pages/channel): parts of the page that change while no script runs, and requests for a
// script run, which are passed on while the visitor is idle. A broken connection is made again; without one the page reruns
// once a second while something runs, and says so.

const VERSION = 1; // of pages/channel/messages.json
const ROOT = new URL("../../..", import.meta.url); // this file is served three folders below the app
const RUN = "gdm:run"; // a script has run to its end
const RETRY_MS = [250, 500, 1000, 2000, 4000];
const ALONE_MS = 1000; // between two runs where there is no channel
const STANDS_MS = 1000;
const GIVE_UP = 3; // tries that failed before the page goes on by runs alone
const SHOWN_MS = 100; // a page in the background draws nothing, and need not be waited for
const SETTLED_MS = 300; // after a run, for all that its script drew to be there
const IDLE_MS = 700; // without a key, a click or a touch
const BUSY_MS = 10_000; // at most, for a button that is held down or a page that is on its way

const parts = new Map(); // by key: what draws it, and what says that it has been drawn
const [note, pill] = [sign("p", "gdm-quiet"), sign("div", "gdm-pill")]; // there before the first script has run to its end
const line = { socket: null, address: "", failed: 0, number: 0, ask: null, moves: false, timer: 0, tables: null };
window.gdmChannel = line; // for tests, which count what came

// Have `draw` called with the new content of the place `key`; `drawn` returns a promise of its being on the screen.
export function hear(key, draw, drawn = () => null) {
  const heard = { draw, drawn };
  parts.set(key, heard);
  return () => parts.get(key) === heard && parts.delete(key);
}

export function say(type, fields = {}) {
  if (line.socket?.readyState === WebSocket.OPEN) line.socket.send(JSON.stringify({ v: VERSION, type, ...fields }));
}

// Have `draw` called with the tables that the server works out for a slider (held.js).
export function hearTables(draw) {
  line.tables = draw;
}

function drawAll(moved) {
  return Object.entries(moved).map(([key, part]) => {
    const heard = parts.get(key);
    heard?.draw(part);
    return heard?.drawn();
  });
}

// What came over the channel after a run is newer than what its script drew, and may have been drawn before it.
function drawNewest(run) {
  if (line.runs === run && line.newest?.run === run) drawAll(line.newest.parts);
}

const TAKES = {
  parts: async ({ number, run, parts: moved }) => {
    line.number = number;
    line.newest = { run, parts: run === line.newest?.run ? { ...line.newest.parts, ...moved } : moved };
    const waits = drawAll(moved);
    await Promise.race([Promise.allSettled(waits).then(frame), pause(SHOWN_MS * 20)]);
    say("drawn", { number });
  },
  run: ({ why }) => askWhenIdle(why),
  tables: (message) => line.tables?.(message),
};

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const frame = () => Promise.race([new Promise(requestAnimationFrame), pause(SHOWN_MS)]);

// ---- script runs, while the visitor is idle ---------------------------------------------------------------------
// Of two requests that wait for the same run, Streamlit keeps one: ours must not take the place of a click or of another page.
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

// ---- what is older than what the controls say -------------------------------------------------------------------
// A slider of the controls has moved: what the page says of its fit is of the value before, until a run has ended.
window.addEventListener("gdm:slider", ({ detail: { key, said, stands, held, live } }) => {
  if (!document.querySelector(`.gdm-slider[data-name="${CSS.escape(key)}"]`)?.closest("[data-testid=stSidebar]")) return;
  if (stands && !held) rest();
  if (stands) return;
  document.documentElement.dataset.gdmWaiting = held && live ? "" : "alone"; // alone: no script draws what the thumb stands at
  line.held = held;
  pill.textContent = `waiting for ${said}`;
  pill.hidden = false;
});

function rest() {
  line.held = false;
  delete document.documentElement.dataset.gdmWaiting;
  pill.hidden = true;
}

// ---- the connection ---------------------------------------------------------------------------------------------
function connect() {
  if (line.socket || !line.address) return;
  const address = new URL(line.address.slice(1), ROOT);
  address.protocol = address.protocol.replace("http", "ws");
  const socket = (line.socket = new WebSocket(address));
  socket.onopen = () => {
    say("present");
    setTimeout(() => line.socket === socket && stands(), STANDS_MS);
  };
  socket.onmessage = ({ data }) => {
    stands();
    const message = JSON.parse(data);
    if (message.v === VERSION) TAKES[message.type]?.(message);
  };
  socket.onclose = () => {
    if (line.socket !== socket) return;
    line.socket = null;
    line.failed += 1;
    mark();
    setTimeout(connect, RETRY_MS[Math.min(line.failed, RETRY_MS.length) - 1]);
  };
}

// A proxy may let a connection through and end it at once: one counts when something came over it, or it has stood.
function stands() {
  if (!line.failed) return;
  line.failed = 0;
  mark();
}

const isAlone = () => line.failed >= GIVE_UP;

// Say on the page where it goes on by runs alone, and have it do so.
function mark() {
  clearInterval(line.timer);
  note.hidden = !isAlone();
  if (isAlone()) line.timer = setInterval(() => line.moves && askWhenIdle("alone"), ALONE_MS);
}

function sign(kind, className) {
  const made = Object.assign(document.createElement(kind), { className, hidden: true });
  made.setAttribute("role", "status");
  return made;
}

export default function ({ data, parentElement, setTriggerValue }) {
  if (pill.parentElement !== parentElement) parentElement.replaceChildren(note, pill);
  note.textContent = data.words;
  window.onbeforeunload = data.unsaved ? (event) => event.preventDefault() : null;
  const { socket } = line;
  const changed = data.address !== line.address;
  const ended = data.runs !== line.runs;
  Object.assign(line, { address: data.address, moves: data.moves, runs: data.runs });
  if (ended) {
    clearTimeout(line.asking); // the server asks again where it still needs one
    busyUntil = Math.min(busyUntil, performance.now() + IDLE_MS);
    window.dispatchEvent(new CustomEvent(RUN));
    setTimeout(drawNewest, SETTLED_MS, data.runs);
    if (!line.held) rest(); // what is out of date from here on, the page says itself
  }
  line.ask = (why) => setTriggerValue("run", `${data.runs} ${why}`); // of each run, one request: the same again is none
  parentElement.dataset.runs = data.runs;
  if (changed) {
    line.socket = null;
    socket?.close();
  }
  connect();
  mark();
}
