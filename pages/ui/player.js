// What players share: a canvas over one clock, over canvas.js, which stands above this. Play, scrub, keys and the page's cursor ask no server. A player brings `own`:
//   of       names what is played among its data: something else starts anew
//   words    of the button: where it stands, while it plays
//   keys     how far each goes; fine (data): what comma and point step by, and minus and plus change the speed
//   follow   whether figures of the page come along with it
//   begin    and end (data): where the clock starts and stops
//   rate     (data) how far the clock goes in a second
//   cursor   (view) where the page's cursor is at this moment; moment (view, cursor): the other way round
//   dress    (view) what stands around the canvas; draw (view): the moment itself
//   listens  (view) events of the window besides; starts (view): after it was built
//   media    what plays by itself beside it, if anything: play (view, playing), and at (view): where it is, null where it is not
const ANNOUNCE = "gdm:cursor";
const TRANSPORT = "gdm:transport"; // a key that was pressed elsewhere on the page and is meant for the player
const WHERE = "gdm:where"; // somebody asks which moment this is
const STILL_MS = 1000; // who asks for less motion gets a picture a second in place of an animation

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
  const key = ({ detail }) => detail.group === view.data.group && pressed(view, detail.key);
  const where = ({ detail }) => {
    if (detail.group === view.data?.group) detail.time = own.cursor(view);
  };
  view.listens = { [ANNOUNCE]: heard, [TRANSPORT]: key, [WHERE]: where, ...own.listens?.(view) };
  for (const [name, hears] of Object.entries(view.listens)) window.addEventListener(name, hears);
  view.resize = new ResizeObserver(() => view.data && own.draw(view));
  view.resize.observe(view.canvas);
  own.starts?.(view);
  return view;
}

// What a key does to the player; whether it does anything.
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
      setPlaying(view, false);
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
      setPlaying(view, false);
    }
    view.scrub.max = String(own.end(view.data));
    view.alt.textContent = data.alt;
    view.canvas.setAttribute("aria-label", data.alt);
    own.dress(view);
    own.draw(view);
    view.canvas.dataset.ready = "yes";
    // Streamlit calls this also when newer data overtook these, while the player lives on: what goes for good has left
    // the document by the time of the next task.
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
