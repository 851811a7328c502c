// Marks by keys while the recording plays: a timeline of what is marked around the present moment, a button and a key for
// each word. The present moment is that of the cursor which all figures and players of the page share. What was marked is
// sent to the page as a list, until the page says that it has heard it: none is lost while the page is busy.

const ANNOUNCE = "gdm:cursor";
const WINDOW_S = 20; // of the timeline
const AGAIN_MS = 2500; // a page that has not heard what was marked by then is told again
const CALM = matchMedia("(prefers-reduced-motion: reduce)");
const TYPING = "input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable=true], [role=dialog] *";

function build(parent) {
  const view = { parent, at: null, open: null, playing: false, queue: [], number: 0, clip: "", answered: "" };
  view.token = `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  for (const role of ["line", "play", "now", "said", "words", "on", "skip", "stop"]) {
    view[role] = parent.querySelector(`[data-role=${role}]`);
  }
  view.play.onclick = () => setPlaying(view, !view.playing);
  view.skip.onclick = () => send(view, { kind: "skip", clip: view.data.clip?.id });
  view.stop.onclick = () => send(view, { kind: "stop" });
  view.on.onchange = () => tell(view);
  view.heard = ({ detail }) => {
    if (detail.group !== view.data.group || detail.from === view || detail.time === null) return;
    if (detail.follow) setPlaying(view, false);
    if (view.playing) return;
    view.at = inside(view, detail.time);
    draw(view);
  };
  view.key = (event) => press(view, event);
  window.addEventListener(ANNOUNCE, view.heard);
  window.addEventListener("keydown", view.key);
  view.resize = new ResizeObserver(() => draw(view));
  view.resize.observe(view.line);
  return view;
}

const inside = ({ data }, time) => Math.min(Math.max(time, data.begin), data.end);

// ---- keys and words -------------------------------------------------------------------------------------------
function press(view, event) {
  const target = event.composedPath()[0];
  if (!view.line.isConnected || !view.on.checked || event.repeat || event.altKey || target.closest?.(TYPING)) return;
  if (event.ctrlKey || event.metaKey) {
    if (event.key.toLowerCase() !== "z") return;
    send(view, { kind: event.shiftKey ? "redo" : "undo" });
  } else if (event.key === "Escape") {
    if (view.open) drop(view);
    else if (view.data.clip) send(view, { kind: "stop" });
    else return;
  } else {
    // By place, since the digits of some keyboards need another key held; and by what is written.
    const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? (/^\d$/.test(event.key) ? event.key : null);
    if (digit === "0" && view.data.clip) send(view, { kind: "skip", clip: view.data.clip.id });
    else {
      const word = view.data.words.find(({ key }) => String(key) === digit);
      if (!word) return;
      choose(view, word);
    }
  }
  event.preventDefault();
}

// The word of the clip that is asked for; else a stretch begins here, or ends where one is open.
function choose(view, word) {
  const { data } = view;
  if (data.clip) {
    if (view.answered === data.clip.id) return; // the next one is on its way
    view.answered = data.clip.id;
    send(view, { kind: "answer", clip: data.clip.id, word: word.word });
    return;
  }
  if (!data.marks) return;
  const at = view.at ?? data.begin;
  const { open } = view;
  if (open) {
    const [begin, end] = [Math.min(open.begin, at), Math.max(open.begin, at)];
    send(view, { kind: "mark", trial: data.trial, begin, end, word: open.word.word });
  }
  view.open = open && open.word.word === word.word ? null : { word, begin: at };
  tell(view);
}

function drop(view) {
  view.open = null;
  tell(view);
}

function send(view, entry) {
  view.number += 1;
  view.queue.push({ n: view.number, ...entry });
  view.again = 0;
  sendAll(view);
  tell(view);
}

// Where the page draws the timeline anew just then, Streamlit forgets what it had set: so until all of it was heard.
function sendAll(view) {
  clearTimeout(view.timer);
  if (!view.queue.length || !view.line.isConnected) return;
  view.times = (view.times ?? 0) + 1; // the same value twice would be no message
  view.setStateValue("keyed", { token: view.token, entries: view.queue, times: view.times });
  // Each message runs the page anew: a page that takes longer than that must not be begun again and again.
  view.timer = setTimeout(() => sendAll(view), AGAIN_MS * 2 ** view.again++);
}

// ---- playing --------------------------------------------------------------------------------------------------
function setPlaying(view, playing) {
  const { data } = view;
  const last = data.clip ? data.clip.end : data.end;
  if (playing && (view.at === null || view.at >= last || (data.clip && view.at < data.clip.begin))) {
    view.at = data.clip ? data.clip.begin : data.begin;
  }
  view.playing = playing;
  view.play.textContent = `${playing ? "Pause" : "Play"} ${data.clip ? "the clip" : "from here"}`;
  view.last = null;
  if (playing) requestAnimationFrame((now) => advance(view, now));
}

function advance(view, now) {
  if (!view.playing || !view.line.isConnected) return;
  const { data } = view;
  if (view.last !== null) {
    view.at += ((now - view.last) / 1000) * data.perSecond;
    if (data.clip && view.at >= data.clip.end) view.at = data.clip.begin;
    if (view.at >= data.end) {
      view.at = data.end;
      setPlaying(view, false);
    }
  }
  announce(view);
  draw(view);
  view.last = now;
  if (view.playing) requestAnimationFrame((next) => advance(view, next));
}

function announce(view) {
  const detail = { group: view.data.group, time: view.at, from: view, follow: true };
  window.dispatchEvent(new CustomEvent(ANNOUNCE, { detail }));
}

// ---- what is seen ---------------------------------------------------------------------------------------------
function tell(view) {
  const { data, open } = view;
  const { unit } = data;
  view.words.querySelectorAll("button").forEach((button) => {
    button.setAttribute("aria-pressed", String(open?.word.word === button.dataset.word));
  });
  let said;
  if (data.clip) {
    said = view.answered === data.clip.id ? "The next moment is on its way." : `${data.clip.said} What is it?`;
  } else if (open) {
    const again = open.word.key ? `${open.word.key} again` : "its button again";
    said = `“${open.word.word}” since ${open.begin.toFixed(1)} ${unit}: ${again} ends it, another word ends it and begins, Esc drops it.`;
  } else if (!data.marks) said = "Nothing is marked here.";
  else if (!data.words.length) said = "Add a word below; its key then begins and ends a stretch.";
  else said = "A key or a button begins a stretch of its word at this moment, and ends it where it is pressed again.";
  if (view.said.textContent !== said) view.said.textContent = said;
  view.skip.hidden = view.stop.hidden = !data.clip;
  view.play.hidden = !data.clip && data.player;
  view.parent.querySelector(".mark").dataset.open = open ? open.word.word : "";
  view.parent.querySelector(".mark").dataset.waiting = String(view.queue.length);
  draw(view);
}

function draw(view) {
  const { line, data } = view;
  const width = line.clientWidth;
  const height = line.clientHeight;
  if (!data || !line.isConnected || !width) return;
  const ratio = window.devicePixelRatio || 1;
  if (line.width !== Math.round(width * ratio) || line.height !== Math.round(height * ratio)) {
    line.width = Math.round(width * ratio);
    line.height = Math.round(height * ratio);
  }
  const pen = line.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  const at = view.at ?? data.begin;
  const whole = data.end - data.begin;
  const span = Math.min(whole, WINDOW_S * data.perSecond);
  const from = Math.min(Math.max(at - span / 2, data.begin), data.end - span);
  const x = (time) => ((time - from) / span) * width;
  const look = getComputedStyle(line);
  const bar = (begin, end, colour, alpha, top, bottom) => {
    if (end < from || begin > from + span) return;
    pen.globalAlpha = alpha;
    pen.fillStyle = colour;
    pen.fillRect(x(begin), top, Math.max(2, x(end) - x(begin)), bottom - top);
    pen.globalAlpha = 1;
  };
  for (const [begin, end, colour] of data.marks ?? []) bar(begin, end, data.colours[colour], 1, 8, height - 8);
  if (data.clip) {
    pen.strokeStyle = look.color;
    pen.lineWidth = 2;
    pen.setLineDash([5, 3]);
    pen.strokeRect(x(data.clip.begin), 3, x(data.clip.end) - x(data.clip.begin), height - 6);
    pen.setLineDash([]);
  }
  if (view.open) {
    const [begin, end] = [Math.min(view.open.begin, at), Math.max(view.open.begin, at)];
    bar(begin, end, view.open.word.colour, 0.75, 2, height - 2);
  }
  pen.strokeStyle = look.color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x(at), 0);
  pen.lineTo(x(at), height);
  pen.stroke();
  view.now.textContent = `${at.toFixed(1)} ${data.unit}`;
}

function wordButtons(view) {
  const { data, words } = view;
  const key = JSON.stringify(data.words);
  if (words.dataset.shown === key) return;
  words.dataset.shown = key;
  words.textContent = "";
  for (const word of data.words) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.word = word.word;
    if (word.key) {
      const hint = document.createElement("kbd");
      hint.textContent = word.key;
      button.append(hint);
      button.setAttribute("aria-keyshortcuts", word.key);
    }
    const dot = document.createElement("i");
    dot.style.background = word.colour;
    button.append(dot, word.word);
    button.onclick = () => choose(view, word);
    words.append(button);
  }
}

export default function ({ data, parentElement, setStateValue }) {
  const before = parentElement.gdmMarking;
  if (before && !parentElement.contains(before.line)) tearDown(before, parentElement); // drawn anew: another server
  const view = (parentElement.gdmMarking ??= build(parentElement));
  view.setStateValue = setStateValue;
  const another = view.data?.recording !== data.recording;
  view.data = data;
  if (data.heard[0] === view.token) view.queue = view.queue.filter(({ n }) => n > data.heard[1]);
  if (!view.queue.length) clearTimeout(view.timer);
  if (another) {
    view.open = null;
    setPlaying(view, false);
    view.at = null;
  }
  wordButtons(view);
  const clip = data.clip?.id ?? "";
  if (clip !== view.clip) {
    view.clip = clip;
    view.answered = "";
    view.open = null;
    setPlaying(view, false);
    if (data.clip) {
      view.at = data.clip.begin;
      announce(view);
      if (!CALM.matches) setPlaying(view, true);
      for (const place of [document.querySelector(".st-key-player"), view.words]) {
        if (place) place.style.scrollMargin = "4.5rem 0"; // the page's header lies over its top
        place?.scrollIntoView({ block: "nearest" });
      }
    }
  } else setPlaying(view, view.playing); // its words
  tell(view);
  // Streamlit calls this also when newer data overtook these, while the timeline lives on.
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmMarking !== view) return;
  view.playing = false;
  clearTimeout(view.timer);
  view.resize.disconnect();
  window.removeEventListener(ANNOUNCE, view.heard);
  window.removeEventListener("keydown", view.key);
  delete parentElement.gdmMarking;
}
