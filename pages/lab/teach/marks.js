// Marks of the desk, which stands below this: what the page knows, and whatever was done since. An entry is one thing that was
// done; what the page has not heard is done here as it will be done there (lessons.py), kept in the browser's own store, and
// sent until it is heard. A mark is [recording, start, stop, word], in frames.

const AGAIN_MS = 2500; // a page that has not heard by then is told again
const REST_MS = 600; // what is done in quick succession is told together: each message has the page drawn anew under the hand
const MOST_MS = 4000;
const STORE = (of) => `gdm-marks-${of}`;

const meets = (mark, [recording, start, stop]) => mark[0] === recording && mark[1] < stop && start < mark[2];
const same = (one, other) => one.every((value, i) => value === other[i]);

// The lesson after everything that was done: { marks, undone, words, skipped } and what the page keeps besides.
function lessonOf({ data, queue }) {
  const found = { ...data.lesson, marks: [...data.lesson.marks], undone: [...data.undone], words: [...data.lesson.words], skipped: [] };
  for (const { kind, recording, start, stop, word, text } of queue) {
    const mark = [recording, start, stop, word];
    if (kind === "mark") [found.undone, found.marks] = [[], [...found.marks, mark]];
    else if (kind === "undo" && found.marks.length) found.undone.push(found.marks.pop());
    else if (kind === "redo" && found.undone.length) found.marks.push(found.undone.pop());
    else if (kind === "away" && found.marks.some((other) => same(other, mark))) {
      found.marks = found.marks.filter((other) => !same(other, mark));
      found.undone.push(mark);
    } else if (kind === "skip") found.skipped.push(mark);
    else if (kind === "word") found.words.push(word);
    else if (kind === "whole") Object.assign(found, read(text), { undone: [] });
  }
  return found;
}

// Why something cannot be called so, or a stretch not be marked, in words; "" where it can.
function noWord({ data, words }, word) {
  if (!word) return "A mark needs a word: press one, or type one.";
  if (words.includes(word) || words.length < data.colours.length) return "";
  return `There can be ${data.colours.length} words at the most; ${word} is one too many. Use another, or undo marks of one.`;
}

function whyNot(view, [recording, start, stop, word]) {
  const { data, lesson } = view;
  const last = data.lengths[recording];
  const why = noWord(view, word);
  if (why) return why;
  if (last === undefined) return "This trial is new: nothing is marked in it, so that words can be measured on it.";
  if (!(stop - start >= 2)) return "A stretch holds two frames at the least, and ends after it begins. Mark a longer one.";
  if (start < 0 || stop > last) return `A stretch lies within the ${last} frames of its trial. Nothing was marked.`;
  const other = lesson.marks.find((mark) => mark[3] !== word && meets(mark, [recording, start, stop]));
  return other ? `Frames ${Math.max(start, other[1])} to ${Math.min(stop, other[2]) - 1} are marked as ${other[3]} already. Undo that first.` : "";
}

function read(text) {
  try {
    const kept = JSON.parse(text);
    return Array.isArray(kept.marks) ? { words: [], keys: [], ...kept } : {};
  } catch {
    return {}; // the page says what is wrong with it
  }
}

// ---- the browser's store ----------------------------------------------------------------------------------------
// Keeps the lesson, and what the page has not heard of it; why that cannot be, in words.
function keep({ data, lesson, token, queue }) {
  const { skipped: _, ...all } = lesson; // what was taken back is told, too: other windows take it back
  try {
    localStorage.setItem(STORE(data.of), JSON.stringify({ ...all, unheard: { token, queue } }));
    return "";
  } catch {
    return "This browser keeps no marks (its store is full, or closed): save them as a file before you leave.";
  }
}

function kept(of) {
  try {
    return localStorage.getItem(STORE(of));
  } catch {
    return null;
  }
}

// Another window marked in the same recording: what it has is done here as well, and nothing of one's own goes. Both may write
// at once, so what is merely missing there was never taken away. Whether there was anything to do.
function join(view, text, before) {
  const [other, earlier] = [text, before].map((one) => ({ marks: [], undone: [], words: [], ...(one && read(one)) }));
  const { marks, undone, words } = view.lesson;
  const has = (list, mark) => list.some((one) => same(one, mark));
  const entry = (kind) => ([recording, start, stop, word]) => ({ kind, recording, start, stop, word });
  const more = (mark) => !has(marks, mark) && !(has(undone, mark) && has(earlier.marks, mark));
  const wanted = [
    ...other.words.filter((word) => !words.includes(word)).map((word) => ({ kind: "word", word })),
    ...other.undone.filter((mark) => has(marks, mark) && !has(other.marks, mark)).map(entry("away")),
    ...other.marks.filter(more).map(entry("mark")),
  ].filter((one) => one.kind !== "mark" || !whyNot(view, [one.recording, one.start, one.stop, one.word]));
  for (const one of wanted) done(view, one);
  return wanted.length > 0;
}

// ---- telling the page -------------------------------------------------------------------------------------------
function done(view, entry) {
  view.queue.push({ n: ++view.number, ...entry });
  view.lesson = lessonOf(view);
  view.lost = keep(view);
  if (view.timer && !view.resting) return; // one message is on its way: this goes together with the next
  view.resting ??= performance.now();
  clearTimeout(view.timer);
  view.timer = setTimeout(() => sendAll(view), Math.max(0, Math.min(REST_MS, view.resting + MOST_MS - performance.now())));
}

// A run that is under way ends first: begun again and again, it would never come to what stands below the desk.
// Where the page draws the desk anew just then, Streamlit forgets what it had set: so until all of it was heard.
function sendAll(view) {
  clearTimeout(view.timer);
  [view.timer, view.resting] = [0, null];
  if (!view.queue.length || !view.line.isConnected) return;
  const waits = AGAIN_MS * 2 ** view.again;
  if (view.running && performance.now() < view.running + waits) {
    view.timer = setTimeout(() => sendAll(view), waits);
    return;
  }
  view.running = performance.now();
  view.times = (view.times ?? 0) + 1; // the same value twice would be no message
  view.setStateValue("keyed", { token: view.token, entries: view.queue, times: view.times });
  // Each message runs the page anew: a page that takes longer than that must not be begun again and again.
  view.again += 1;
  view.timer = setTimeout(() => sendAll(view), waits);
}

function ran(view) {
  view.running = 0;
  if (view.queue.length && !view.resting) sendAll(view);
}

// What the page knows by now; the rest goes on its way. A page that knows nothing of this recording is given what was kept:
// it was reloaded, or its server was. One that was turned to again is told what it had not heard when it was left.
function heard(view) {
  const { data } = view;
  const [token, last] = data.heard;
  const left = view.queue.length;
  const text = kept(data.of);
  const begun = view.of !== data.of;
  if (begun) {
    const { token: its, queue } = (text && read(text).unheard) || { queue: [] };
    const known = token === "" || token === its;
    view.queue = known ? queue.filter(({ n }) => token === "" || n > last).map((entry) => ({ ...entry, n: ++view.number })) : [];
    view.of = data.of;
  } else if (token === view.token) view.queue = view.queue.filter(({ n }) => n > last);
  if (!data.touched && text !== null && view.given !== text) {
    view.given = text;
    view.queue = [{ n: ++view.number, kind: "whole", text }];
  }
  if (view.queue.length < left) view.again = 0;
  if (!view.resting && (view.queue.length < left || !view.timer)) sendAll(view);
  view.lesson = lessonOf(view);
  if (!data.touched) return;
  if (begun && text !== null && !view.given) join(view, text, null); // another window may have marked while this desk was away
  if (data.refused && view.given) localStorage.setItem(`${STORE(data.of)}-refused`, view.given);
  [view.given, view.lost] = [null, keep(view)];
}
