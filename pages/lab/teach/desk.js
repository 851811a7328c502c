// Marks by keys, buttons and a drag while the recording plays: a timeline of what is marked around the present moment, a button
// and a key for each word, and the moments that the model asks about. The present moment is that of the cursor which all
// figures and players of the page share. What is marked is painted before anybody is asked (marks.js, above this).

const ANNOUNCE = "gdm:cursor";
const TRANSPORT = "gdm:transport"; // keys that are meant for the player (pages/ui/player.js)
const WHERE = "gdm:where"; // asks the player for its moment (pages/ui/player.js)
const RUN = "gdm:run"; // a script has run to its end (pages/ui/components/channel.js)
const WINDOW_S = 20; // of the timeline, to begin with
const LEAST_S = 1;
const DOUBT = 0.6 * 255; // the likeliest word below it is in doubt
const TYPING = "input:not([type=range]):not([type=checkbox]), textarea, select, [contenteditable=true], [role=dialog] *";
const JUMPS = {
  n: ["doubt", (view, f) => view.model && view.sure[f] < DOUBT],
  d: ["differs", (view, f) => view.model && view.model[f] !== 255 && [view.expert?.[f], view.marked[f]].some((z) => ![255, undefined, view.model[f]].includes(z))],
  u: ["bare", (view, f) => view.marked[f] === 255],
};
const NONE = { doubt: "Nothing is in doubt here", differs: "Nothing disagrees here", bare: "All of it is marked" };

function build(parent) {
  const view = { parent, at: null, open: null, playing: false, queue: [], number: 0, again: 0, span: null, asking: false, clip: "" };
  view.token = `${Date.now().toString(36)}${Math.random().toString(36).slice(2, 8)}`;
  const place = Object.fromEntries([...parent.querySelectorAll("[data-role]")].map((one) => [one.dataset.role, one]));
  Object.assign(view, { place, line: place.line });
  const clicks = {
    play: () => setPlaying(view, !view.playing),
    wider: () => zoom(view, 2),
    closer: () => zoom(view, 0.5),
    whole: () => zoom(view, Infinity),
    skip: () => passOver(view),
    stop: () => ask(view, false),
    begin: () => ask(view, true),
    undo: () => act(view, { kind: "undo" }),
    redo: () => act(view, { kind: "redo" }),
    name: () => choose(view, place.word.value.trim()) && (place.word.value = ""),
    add: () => addWord(view),
    ...Object.fromEntries(Object.values(JUMPS).map(([name]) => [name, () => jump(view, name)])),
  };
  for (const [name, does] of Object.entries(clicks)) place[name].onclick = does;
  for (const field of [place.from, place.to]) field.oninput = () => draw(view);
  for (const [kind, does] of Object.entries(POINTER)) view.line.addEventListener(kind, (event) => does(view, event));
  const cursor = ({ detail }) => {
    if (detail.group !== view.data.group || detail.from === view || detail.time === null) return;
    if (detail.follow) setPlaying(view, false);
    if (view.playing) return;
    view.at = inside(view, detail.time);
    draw(view);
  };
  const storage = ({ key, oldValue, newValue }) => {
    if (key === STORE(view.data.of) && newValue !== null && join(view, newValue, oldValue)) refresh(view);
  };
  view.listens = { [ANNOUNCE]: cursor, storage, keydown: (event) => press(view, event), [RUN]: () => ran(view) };
  for (const [name, hears] of Object.entries(view.listens)) window.addEventListener(name, hears);
  view.resize = new ResizeObserver(() => draw(view));
  view.resize.observe(view.line);
  return view;
}

const inside = ({ data }, time) => Math.min(Math.max(time, data.begin), data.end);
const frameAt = ({ data }, time) => Math.min(data.n, Math.max(0, Math.round((time - data.begin) / data.step)));
// The present moment: until somebody moves it, that of the player.
function present(view) {
  if (view.at !== null) return view.at;
  const detail = { group: view.data.group, time: null };
  window.dispatchEvent(new CustomEvent(WHERE, { detail }));
  return inside(view, detail.time ?? view.data.begin);
}

const timeAt = ({ data }, frame) => data.begin + data.step * frame;

// ---- keys and words -------------------------------------------------------------------------------------------
function press(view, event) {
  const target = event.composedPath()[0];
  if (!view.line.isConnected || !view.place.on.checked || event.altKey || event.defaultPrevented || target.closest?.(TYPING)) return;
  if (keyed(view, event, target)) {
    event.preventDefault();
    view.line.dataset.keyMs = (performance.now() - event.timeStamp).toFixed(1); // from the key to the paint
  }
}

function keyed(view, event, target) {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  if (event.ctrlKey || event.metaKey) return key === "z" && act(view, { kind: event.shiftKey ? "redo" : "undo" });
  if ([",", ".", "-", "+", "="].includes(key)) return transport(view, key === "=" ? "+" : key);
  if (event.repeat) return false;
  if (key === " ") return !target.closest?.("button, a, [role=tab], canvas") && transport(view, key);
  if (key === "Escape") return escape(view);
  if (key === "Delete") return away(view);
  if (JUMPS[key]) return jump(view, JUMPS[key][0]);
  // By place, since the digits of some keyboards need another key held; and by what is written.
  const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1] ?? (/^\d$/.test(key) ? key : null);
  if (digit === "0") return view.asked ? passOver(view) : false;
  const word = view.words.find((one) => String(view.keys[one]) === digit);
  return word !== undefined && choose(view, word);
}

function transport(view, key) {
  const { data } = view;
  if (data.player) window.dispatchEvent(new CustomEvent(TRANSPORT, { detail: { group: data.group, key } }));
  else if (key === " ") setPlaying(view, !view.playing);
  else if (key === "," || key === ".") go(view, timeAt(view, frameAt(view, present(view)) + (key === "," ? -1 : 1)));
  else return false;
  return true;
}

function escape(view) {
  if (view.open) view.open = null;
  else if (hand(view)) takeHand(view, null);
  else if (view.asking) return ask(view, false);
  else return false;
  return tell(view);
}

// The word of the clip that is asked for, or of the stretch in hand; else a stretch begins here, or ends where one is open.
function choose(view, word) {
  const { data, open } = view;
  const held = hand(view);
  if (held && !view.open) {
    if (!mark(view, data.trial, frameAt(view, held[0]), frameAt(view, held[1]), word)) return false;
    takeHand(view, null);
    return tell(view);
  }
  if (view.asked) return mark(view, view.asked.recording, view.asked.start, view.asked.stop, word);
  const why = noWord(view, word);
  if (!data.fitted || why) return tell(view, why);
  const at = frameAt(view, present(view));
  if (open) mark(view, data.trial, Math.min(open.frame, at), Math.max(open.frame, at), open.word);
  view.open = open?.word === word ? null : { word, frame: at };
  return tell(view, view.wrong);
}

function mark(view, recording, start, stop, word) {
  const why = whyNot(view, [recording, start, stop, word]);
  if (why) {
    tell(view, why);
    return false;
  }
  return act(view, { kind: "mark", recording, start, stop, word });
}

function act(view, entry) {
  done(view, entry);
  refresh(view);
  return true;
}

function addWord(view) {
  const { word } = view.place;
  const name = word.value.trim();
  if (!name || view.words.includes(name)) return tell(view, name ? `${name} is there already.` : "Type a word that is not there yet.");
  if (view.words.length >= view.data.colours.length) return tell(view, noWord(view, name));
  word.value = "";
  return act(view, { kind: "word", word: name });
}

function away(view) {
  const { data, lesson } = view;
  const at = frameAt(view, present(view));
  const found = lesson.marks.findLast((one) => meets(one, [data.trial, at, at + 1]));
  if (!found) return tell(view, "No mark is here to take away.");
  return act(view, { kind: "away", recording: found[0], start: found[1], stop: found[2], word: found[3] });
}

// ---- the stretch in hand: typed, or dragged over the timeline ----------------------------------------------------
function hand({ place }) {
  const [begin, end] = [place.from, place.to].map((field) => (field.value === "" ? NaN : Number(field.value)));
  return Number.isFinite(begin) && Number.isFinite(end) ? [begin, end] : null;
}

function takeHand({ place }, stretch) {
  [place.from.value, place.to.value] = stretch ? stretch.map((time) => String(Math.round(time * 1000) / 1000)) : ["", ""];
}

const POINTER = {
  pointerdown(view, event) {
    view.drag = { from: timeUnder(view, event), x: event.offsetX, shown: shown(view), moved: false };
    view.line.setPointerCapture(event.pointerId);
  },
  pointermove(view, event) {
    const { drag } = view;
    if (!drag || (!drag.moved && Math.abs(event.offsetX - drag.x) < 4)) return;
    drag.moved = true;
    takeHand(view, [drag.from, timeUnder(view, event)].sort((a, b) => a - b));
    tell(view);
  },
  pointerup(view) {
    const { drag } = view;
    view.drag = null;
    if (drag && !drag.moved) go(view, drag.from);
  },
  pointercancel: (view) => (view.drag = null),
  wheel(view, event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    zoom(view, event.deltaY + event.deltaX > 0 ? 1.25 : 0.8);
  },
};

function timeUnder(view, { offsetX }) {
  const { from, span } = view.drag?.shown ?? shown(view);
  return inside(view, from + (offsetX / view.line.clientWidth) * span);
}

// ---- moving about ------------------------------------------------------------------------------------------------
function go(view, time) {
  setPlaying(view, false);
  view.at = inside(view, time);
  announce(view);
  draw(view);
  return true;
}

function zoom(view, by) {
  const { data } = view;
  const whole = data.end - data.begin;
  view.span = Math.min(whole, Math.max(Math.min(whole, LEAST_S * data.perSecond), shown(view).span * by));
  draw(view);
}

// To the next place where a stretch of such moments begins, around the end to the beginning.
function jump(view, name) {
  const { data } = view;
  const [, holds] = Object.values(JUMPS).find(([one]) => one === name);
  const n = Math.ceil(data.n / data.stride);
  const from = Math.min(n - 1, Math.floor(frameAt(view, present(view)) / data.stride));
  for (let i = 1; i <= n; i++) {
    const f = (from + i) % n;
    if (holds(view, f) && (f === 0 || !holds(view, f - 1))) return go(view, timeAt(view, f * data.stride));
  }
  return tell(view, `${NONE[name]}${name === "bare" || view.model ? "" : " yet: nothing has been learned"}.`);
}

// ---- what the model asks about -----------------------------------------------------------------------------------
function ask(view, on) {
  view.asking = on;
  view.open = null;
  refresh(view);
  return true;
}

function passOver(view) {
  const { recording, start, stop } = view.asked;
  return act(view, { kind: "skip", recording, start, stop, word: "" });
}

// The first clip that is neither answered nor passed over; it is played again and again.
function question(view) {
  const { data, lesson, place } = view;
  const settled = [...lesson.marks, ...lesson.skipped];
  const left = data.clips.filter((clip) => !settled.some((mark) => meets(mark, [clip.recording, clip.start, clip.stop])));
  view.asked = view.asking ? (left[0] ?? null) : null;
  place.ask.hidden = !view.asking;
  place.begin.hidden = view.asking;
  place.begin.disabled = !left.length;
  place.skip.disabled = !view.asked;
  place.loop.hidden = !view.asked?.poses;
  const clip = view.asked ? `${view.asked.recording}/${view.asked.start}` : "";
  place.question.textContent = view.asked ? `${view.asked.said}. What is it?` : "The next moments are being worked out.";
  if (clip === view.clip) return;
  view.clip = clip;
  setPlaying(view, false);
  if (!clip) return;
  view.poses = unpacked(view.asked.poses);
  view.frame = 0;
  if (view.asked.recording === data.trial) go(view, timeAt(view, view.asked.start));
  else if (!view.poses) done(view, { kind: "look", recording: view.asked.recording });
  if (!CALM.matches) setPlaying(view, true);
}

// ---- playing --------------------------------------------------------------------------------------------------
const plays = ({ asked, poses, data }) => (asked ? (poses ? "poses" : asked.recording === data.trial ? "clip" : "") : "here");

function setPlaying(view, playing) {
  const { data } = view;
  const what = plays(view);
  if (playing && what === "here" && (view.at === null || view.at >= data.end)) view.at = data.begin;
  view.playing = playing && what !== "";
  view.place.play.textContent = `${view.playing ? "Pause" : "Play"} ${view.asked ? "the clip" : "from here"}`;
  view.place.play.hidden = !view.asked && data.player;
  view.last = null;
  if (view.playing) requestAnimationFrame((now) => advance(view, now));
}

function advance(view, now) {
  if (!view.playing || !view.line.isConnected) return;
  const { data, asked } = view;
  const passed = view.last === null ? 0 : (now - view.last) / 1000;
  view.last = now;
  if (plays(view) === "poses") {
    view.frame = (view.frame + passed * asked.rate) % Math.max(1, view.poses.n - 1);
    loop(view);
  } else {
    view.at = present(view) + passed * data.perSecond;
    if (asked && (view.at >= timeAt(view, asked.stop) || view.at < timeAt(view, asked.start))) view.at = timeAt(view, asked.start);
    if (view.at >= data.end) {
      view.at = data.end;
      setPlaying(view, false);
    }
    announce(view);
    draw(view);
  }
  if (view.playing) requestAnimationFrame((next) => advance(view, next));
}

function loop(view) {
  const canvas = view.place.loop;
  const on = view.poses && paper({ canvas });
  if (!on) return;
  const { color, outlineColor } = getComputedStyle(canvas);
  skeletons(on.pen, view.poses, view.frame, fitted(view.poses.box, on.width, on.height), color, outlineColor);
}

function announce(view) {
  const detail = { group: view.data.group, time: view.at, from: view, follow: true };
  window.dispatchEvent(new CustomEvent(ANNOUNCE, { detail }));
}

// ---- what is seen ---------------------------------------------------------------------------------------------
// After something was done, or came from the page.
function refresh(view) {
  const { data, lesson } = view;
  const once = new Set([...data.words, ...lesson.words, ...lesson.marks.map((one) => one[3])]);
  view.words = [...once];
  view.keys = { ...data.keys };
  const free = [1, 2, 3, 4, 5, 6, 7, 8, 9].filter((n) => !Object.values(view.keys).includes(n));
  for (const word of view.words) if (!(word in view.keys) && free.length) view.keys[word] = free.shift();
  view.marked = new Uint8Array(Math.ceil(data.n / data.stride)).fill(255);
  for (const [recording, start, stop, word] of lesson.marks)
    if (recording === data.trial) view.marked.fill(view.words.indexOf(word), Math.ceil(start / data.stride), Math.ceil(stop / data.stride));
  wordButtons(view);
  view.place.undo.disabled = !lesson.marks.length;
  view.place.redo.disabled = !lesson.undone.length;
  question(view);
  tell(view);
}

const colour = (view, word) => view.data.colours[Math.min(view.words.indexOf(word), view.data.colours.length - 1)];

function tell(view, wrong = "") {
  const { data, open, place } = view;
  view.wrong = wrong;
  place.words.querySelectorAll("button").forEach((button) => {
    button.setAttribute("aria-pressed", String(open?.word === button.dataset.word));
  });
  let said = wrong || view.lost;
  place.said.toggleAttribute("data-wrong", Boolean(said));
  if (!said && open) {
    const again = view.keys[open.word] ? `${view.keys[open.word]} again` : "its button again";
    said = `“${open.word}” since ${timeAt(view, open.frame).toFixed(1)} ${data.unit}: ${again} ends it, another word ends it and begins, Esc drops it.`;
  } else if (said) said = said.trim();
  else if (hand(view)) said = "Press what this stretch is, or Esc.";
  else if (view.asked) said = "A key or a button answers, and the next one comes.";
  else if (!data.fitted) said = "Nothing is marked in a new trial, so that words can be measured on it.";
  else if (!view.words.length) said = "Add a word; its key then begins and ends a stretch.";
  else said = "A key or a button begins a stretch of its word at this moment, and ends it where it is pressed again. Or drag over the timeline.";
  if (place.said.textContent !== said) place.said.textContent = said;
  const { dataset } = view.parent.querySelector(".mark");
  Object.assign(dataset, { open: open?.word ?? "", waiting: view.queue.length, marks: view.lesson.marks.length });
  draw(view);
  return true;
}

// The part of the recording that the timeline shows: what was there when a drag began, else around the present moment.
function shown(view) {
  if (view.drag) return view.drag.shown;
  const { data } = view;
  const span = Math.min(data.end - data.begin, view.span ?? WINDOW_S * data.perSecond);
  return { span, from: Math.min(Math.max(present(view) - span / 2, data.begin), data.end - span) };
}

function draw(view) {
  const { line, data, lesson, place } = view;
  if (!data || !lesson) return;
  const on = paper({ canvas: line });
  if (!on) return;
  const { pen, width } = on;
  const at = present(view);
  const { from, span } = shown(view);
  const x = (time) => ((time - from) / span) * width;
  const { color, fontFamily } = getComputedStyle(line);
  const muted = getComputedStyle(place.now).color;
  const bar = (begin, end, fill, alpha, top, bottom) => {
    if (end < from || begin > from + span) return;
    pen.globalAlpha = alpha;
    pen.fillStyle = fill;
    pen.fillRect(x(begin), top, Math.max(2, x(end) - x(begin)), bottom - top);
    pen.globalAlpha = 1;
  };
  strip(view, pen, width, from, span, view.model && ((f) => [`rgb(${view.rgb.subarray(3 * f, 3 * f + 3)})`, 0.15 + 0.85 * (view.sure[f] / 255)]), 36, 54);
  strip(view, pen, width, from, span, view.expert && ((f) => (view.expert[f] === 255 ? null : [data.colours[view.expert[f]], 1])), 58, 70);
  for (const [recording, start, stop, word] of lesson.marks)
    if (recording === data.trial) bar(timeAt(view, start), timeAt(view, stop), colour(view, word), 1, 6, 32);
  if (view.asked?.recording === data.trial) {
    pen.strokeStyle = color;
    pen.lineWidth = 2;
    pen.setLineDash([5, 3]);
    const [begin, end] = [timeAt(view, view.asked.start), timeAt(view, view.asked.stop)];
    pen.strokeRect(x(begin), 3, x(end) - x(begin), 32);
    pen.setLineDash([]);
  }
  if (view.open) {
    const [begin, end] = [timeAt(view, view.open.frame), at].sort((a, b) => a - b);
    bar(begin, end, colour(view, view.open.word), 0.75, 2, 36);
  }
  const held = hand(view);
  if (held) bar(...held, color, 0.22, 0, 74);
  axis(pen, width, from, span, muted, fontFamily);
  pen.fillStyle = muted;
  for (const [name, there, y] of [["marks", lesson.marks.length, 30], ["model", view.model, 52], ["expert", view.expert, 70]])
    if (there) outlined(pen, name, 6, y - 4, muted, getComputedStyle(place.loop).backgroundColor, fontFamily);
  pen.strokeStyle = color;
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(x(at), 0);
  pen.lineTo(x(at), 76);
  pen.stroke();
  place.now.textContent = `${at.toFixed(2)} ${data.unit} · frame ${frameAt(view, at)}`;
  place.window.textContent = `${span >= 10 ? Math.round(span) : span.toFixed(1)} ${data.unit}`;
}

// What is known of each moment, as a row of colours: at most one box a pixel.
function strip(view, pen, width, from, span, look, top, bottom) {
  if (!look) return;
  const { data } = view;
  const n = Math.ceil(data.n / data.stride);
  const frames = span / data.step / data.stride;
  const first = (from - data.begin) / data.step / data.stride;
  const boxes = Math.ceil(Math.min(width, frames + 1));
  for (let i = 0; i < boxes; i++) {
    const f = Math.floor(first + (i * frames) / boxes);
    const found = f >= 0 && f < n ? look(f) : null;
    if (!found) continue;
    [pen.fillStyle, pen.globalAlpha] = found;
    const [left, right] = [i, i + 1].map((k) => Math.round((k * width) / boxes));
    pen.fillRect(left, top, right - left, bottom - top);
  }
  pen.globalAlpha = 1;
}

function axis(pen, width, from, span, colour, family) {
  const wish = (span / width) * 80; // a number about every 80 pixels
  const ten = 10 ** Math.floor(Math.log10(wish));
  const step = [1, 2, 5, 10].map((k) => k * ten).find((size) => size >= wish);
  pen.fillStyle = pen.strokeStyle = colour;
  pen.font = `11px ${family}`;
  pen.lineWidth = 1;
  for (let time = Math.ceil(from / step) * step; time <= from + span; time += step) {
    const x = ((time - from) / span) * width;
    pen.fillRect(x, 73, 1, 5);
    if (x < width - 24) pen.fillText(time.toFixed(step < 1 ? 1 : 0), x + 3, 87);
  }
}

function outlined(pen, text, x, y, ink, ground, family) {
  pen.font = `11px ${family}`;
  pen.lineWidth = 3;
  pen.strokeStyle = ground;
  pen.strokeText(text, x, y);
  pen.fillStyle = ink;
  pen.fillText(text, x, y);
}

function wordButtons(view) {
  const { words } = view.place;
  const key = JSON.stringify([view.words, view.keys]);
  if (words.dataset.shown === key) return;
  words.dataset.shown = key;
  words.textContent = "";
  for (const word of view.words) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.word = word;
    if (view.keys[word]) {
      const hint = document.createElement("kbd");
      hint.textContent = view.keys[word];
      button.append(hint);
      button.setAttribute("aria-keyshortcuts", view.keys[word]);
    }
    const dot = document.createElement("i");
    dot.style.background = colour(view, word);
    button.append(dot, word);
    button.onclick = () => choose(view, word);
    words.append(button);
  }
}

export default function ({ data, parentElement, setStateValue }) {
  const before = parentElement.gdmDesk;
  if (before && !parentElement.contains(before.line)) tearDown(before, parentElement); // drawn anew: another server
  const view = (parentElement.gdmDesk ??= build(parentElement));
  view.setStateValue = setStateValue;
  const another = view.data?.recording !== data.recording;
  view.data = data;
  for (const name of ["expert", "model", "sure", "rgb"]) view[name] = unpacked(data[name]);
  if (another) {
    setPlaying(view, false);
    [view.open, view.at] = [null, null];
    takeHand(view, null);
  }
  heard(view);
  if (another && view.asked && !view.poses && view.asked.recording === data.trial) view.clip = ""; // the page has gone there
  refresh(view);
  setPlaying(view, view.playing); // its words
  // Streamlit calls this also when newer data overtook these, while the desk lives on.
  return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
}

function tearDown(view, parentElement) {
  if (parentElement.gdmDesk !== view) return;
  view.playing = false;
  clearTimeout(view.timer);
  view.resize.disconnect();
  for (const [name, hears] of Object.entries(view.listens)) window.removeEventListener(name, hears);
  delete parentElement.gdmDesk;
}
