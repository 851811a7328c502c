// The live channel's end in the browser (pages/channel): parts of the page that move while no script runs, and when the script
// is to run again. A connection that breaks comes back by itself and asks for everything that moves. Where none can be had,
// the script is asked to run once a second while something is under way, and the page says so.

const VERSION = 1; // of pages/channel/messages.json
const ROOT = new URL("../../..", import.meta.url); // this file is served three folders below the app
const RUN = "gdm:run"; // a script has run to its end
const RETRY_MS = [250, 500, 1000, 2000, 4000];
const ALONE_MS = 1000; // between two runs where there is no channel
const STANDS_MS = 1000;
const GIVE_UP = 3; // tries that failed before the page goes on by runs alone
const LEAVE_MS = 10_000; // for the run of a page that somebody turns to
const LATE_MS = 10_000; // without a finished run, it is said what is waited for
const SHOWN_MS = 100; // a page in the background draws nothing, and need not be waited for
const SETTLED_MS = 300; // after a run, for all that its script drew to be there: Streamlit's page calls each drawing when it likes

const parts = new Map(); // by key: what draws it, and what says that it has been drawn
const [note, pill] = [sign("p", "gdm-quiet"), sign("div", "gdm-pill")]; // there before the first script has run to its end
const line = { socket: null, address: "", failed: 0, number: 0, ask: null, moves: false, timer: 0, tables: null };
window.gdmChannel = line; // for tests, which count what came

// Has `draw` called with what stands now in the place of that key; `drawn` gives a promise of its being on the screen.
export function hear(key, draw, drawn = () => null) {
  const heard = { draw, drawn };
  parts.set(key, heard);
  return () => parts.get(key) === heard && parts.delete(key);
}

export function say(type, fields = {}) {
  if (line.socket?.readyState === WebSocket.OPEN) line.socket.send(JSON.stringify({ v: VERSION, type, ...fields }));
}

// Has `draw` called with the tables that the server works out for a slider (held.js).
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
  run: ({ why }) => line.leaving || line.ask?.(why),
  tables: (message) => line.tables?.(message),
};

// Somebody turns to another page, or steps back: of two requests that wait for the same run, Streamlit takes the page and the
// address of the later one, so that ours would undo theirs. The server asks again where no run follows.
for (const [name, leaves] of [["click", ({ target }) => target.closest?.("a[href]")], ["popstate", () => true]])
  window.addEventListener(
    name,
    (event) => {
      if (!leaves(event)) return;
      line.leaving = true;
      clearTimeout(line.left);
      line.left = setTimeout(() => (line.leaving = false), LEAVE_MS);
    },
    true,
  );

// ---- what is older than what the controls say -------------------------------------------------------------------
// A slider of the controls has moved: what the page says of its fit is of the value before, until a run has ended.
window.addEventListener("gdm:slider", (event) => queueMicrotask(() => heard(event))); // once all have heard it

function heard({ detail: { key, said, stands, held }, defaultPrevented }) {
  if (!document.querySelector(`.st-key-slider-${CSS.escape(key)}`)?.closest("[data-testid=stSidebar]")) return;
  if (stands && !held) rest();
  else if (!stands) wait(said, held, !held || defaultPrevented ? "alone" : "");
}

// `how` is "alone" where no script draws what the thumb stands at before it is let go.
function wait(said, held, how = "alone") {
  clearTimeout(line.late);
  document.documentElement.dataset.gdmWaiting = how;
  line.held = held;
  pill.replaceChildren(`waiting for ${said}`);
  pill.hidden = false;
  if (!held) line.late = setTimeout(() => late(said), LATE_MS);
}

function late(said) {
  const button = document.createElement("button");
  Object.assign(button, { type: "button", textContent: "Ask again" });
  button.onclick = () => {
    say("present");
    line.ask?.("again");
    wait(said, false);
  };
  pill.replaceChildren(`Still waiting for ${said}: the server has much to do, or cannot be reached. `, button);
}

function rest() {
  clearTimeout(line.late);
  line.held = false;
  delete document.documentElement.dataset.gdmWaiting;
  pill.hidden = true;
}

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const frame = () => Promise.race([new Promise(requestAnimationFrame), pause(SHOWN_MS)]);

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

// A proxy may let a connection through and end it at once: one is taken for good when something came over it, or it has stood.
function stands() {
  if (!line.failed) return;
  line.failed = 0;
  mark();
}

function hangUp() {
  const { socket } = line;
  line.socket = null;
  socket?.close();
}

const isAlone = () => line.failed >= GIVE_UP;

// Says on the page where it goes on by runs alone, and has it do so.
function mark() {
  clearInterval(line.timer);
  note.hidden = !isAlone();
  if (isAlone()) line.timer = setInterval(() => line.moves && line.ask?.("alone"), ALONE_MS);
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
  const changed = data.address !== line.address;
  const ended = data.runs !== line.runs;
  Object.assign(line, { address: data.address, moves: data.moves, runs: data.runs });
  if (ended) {
    line.leaving = false;
    window.dispatchEvent(new CustomEvent(RUN));
    setTimeout(drawNewest, SETTLED_MS, data.runs);
  }
  if (ended && !line.held) rest(); // what is out of date from here on, the page says itself
  line.ask = (why) => setTriggerValue("run", `${data.runs} ${why}`); // of each run, one request: the same again is none
  parentElement.dataset.runs = data.runs;
  if (changed) hangUp();
  connect();
  mark();
}
