// A player: a canvas with a clock, a scrubber, keys and the page's cursor. canvas.js comes before it. `own` of a player has:
//   of       field of its data that identifies the recording; another one restarts the player
//   words    labels of the button, paused and playing
//   keys     step of each key; fine (data): step of comma and period
//   loops    whether it plays at once, and again from the start
//   follow   whether zoomed figures of the page scroll with it
//   begin    and end (data): limits of the clock
//   rate     (data) clock units per second
//   cursor   (view) time of the page's cursor; moment (view, time): the clock at that time
//   dress    (view) draws the elements around the canvas; draw (view): the canvas
//   listens  (view) further events of the window; starts (view): called once built
//   media    a video, if any: play (view, playing), and at (view): its time, null without one
const ANNOUNCE = "gdm:cursor";
const WHERE = "gdm:where"; // asks for the current time
const CONTROLS = "a, button, canvas, input:not([type=range]), select, summary, textarea, [contenteditable], [role]:not([role=main])";
const STILL_MS = 1000; // between pictures with reduced motion

function build(parent, own) {
  const view = { at: 0, playing: false, own };
  for (const place of parent.querySelectorAll("[data-role]")) view[place.dataset.role] = place;
  view.speed.onchange = () => view.playing && own.media?.play(view, true);
  view.play.onclick = () => setPlaying(view, !view.playing);
  view.scrub.oninput = () => {
    setPlaying(view, false);
    seek(view, Number(view.scrub.value), true);
  };
  view.canvas.onkeydown = (event) => {
    if (!event.ctrlKey && !event.metaKey && pressed(view, event.key)) event.preventDefault();
  };
  const heard = ({ detail }) => {
    if (detail.group !== view.data.group || detail.from === view || detail.time === null) return;
    if (detail.follow) setPlaying(view, false);
    if (!view.playing) seek(view, own.moment(view, detail.time), false);
  };
  // Space plays wherever no control has the focus, also within other components.
  const keydown = (event) => {
    const other = event.key !== " " || event.ctrlKey || event.metaKey || event.composedPath()[0].closest?.(CONTROLS);
    if (other || view.data.follows) return;
    event.preventDefault();
    pressed(view, " ");
  };
  const where = ({ detail }) => {
    if (detail.group === view.data?.group && !view.data.follows) detail.time = own.cursor(view);
  };
  view.listens = { [ANNOUNCE]: heard, [WHERE]: where, keydown, ...own.listens?.(view) };
  for (const [name, hears] of Object.entries(view.listens)) window.addEventListener(name, hears);
  view.resize = new ResizeObserver(() => view.data && own.draw(view));
  view.resize.observe(view.canvas);
  own.starts?.(view);
  return view;
}

// Handle a key; return whether the player uses it.
function pressed(view, key) {
  const { own, data, speed } = view;
  const fine = own.fine?.(data) ?? 1;
  const step = own.keys[key];
  if (key === " ") setPlaying(view, !view.playing);
  else if (key === "Home") seek(view, 0, true);
  else if (key === "End") seek(view, own.end(data), true);
  else if (key === "," || key === ".") {
    setPlaying(view, false);
    seek(view, (Math.round(view.at / fine) + (key === "," ? -1 : 1)) * fine, true);
  } else if (key === "-" || key === "+") {
    speed.selectedIndex = Math.max(0, Math.min(speed.options.length - 1, speed.selectedIndex + (key === "-" ? -1 : 1)));
    speed.onchange();
  } else if (step) seek(view, view.at + step, true);
  else return false;
  return true;
}

function seek(view, at, tell) {
  const { own, data } = view;
  view.at = Math.max(0, Math.min(own.end(data), at));
  own.draw(view);
  if (!tell) return;
  const detail = { group: data.group, time: own.cursor(view), from: view, follow: own.follow };
  window.dispatchEvent(new CustomEvent(ANNOUNCE, { detail }));
}

function setPlaying(view, playing) {
  if (playing && view.at >= view.own.end(view.data)) view.at = 0;
  view.playing = playing;
  view.play.textContent = view.own.words[playing ? 1 : 0];
  view.play.setAttribute("aria-pressed", playing);
  view.last = null;
  clearTimeout(view.timer);
  view.own.media?.play(view, playing);
  if (playing) next(view);
}

function next(view) {
  if (CALM.matches) view.timer = setTimeout(() => advance(view, performance.now()), view.last === null ? 0 : STILL_MS);
  else requestAnimationFrame((now) => advance(view, now));
}

function advance(view, now) {
  if (!view.playing || !view.canvas.isConnected) return;
  if (view.last !== null) {
    const passed = ((now - view.last) / 1000) * view.own.rate(view.data) * Number(view.speed.value);
    seek(view, view.own.media?.at(view) ?? view.at + passed, true);
    if (view.at >= view.own.end(view.data)) {
      setPlaying(view, Boolean(view.own.loops));
      return;
    }
  }
  view.last = now;
  next(view);
}

function player(own) {
  return ({ data, parentElement }) => {
    const view = (parentElement.gdmPlayer ??= build(parentElement, own));
    const another = view.data?.[own.of] !== data[own.of];
    view.data = unpacked(data);
    if (another) {
      view.at = own.begin(view.data);
      setPlaying(view, Boolean(own.loops) && !CALM.matches);
    }
    view.scrub.max = String(own.end(view.data));
    view.alt.textContent = data.alt;
    view.canvas.setAttribute("aria-label", data.alt);
    own.dress(view);
    own.draw(view);
    view.canvas.dataset.ready = "yes";
    // Streamlit also calls this when newer data arrive while the player stays.
    return () => setTimeout(() => parentElement.isConnected || tearDown(view, parentElement));
  };
}

function tearDown(view, parentElement) {
  if (parentElement.gdmPlayer !== view) return;
  view.playing = false;
  view.own.media?.play(view, false);
  clearTimeout(view.timer);
  view.resize.disconnect();
  for (const [name, hears] of Object.entries(view.listens)) window.removeEventListener(name, hears);
  delete parentElement.gdmPlayer;
}
