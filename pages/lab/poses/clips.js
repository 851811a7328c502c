// Clips of several recordings as a grid of loops on one canvas, over their videos if the player has opened them (video.js).
// The grid is saved as a video by recording one loop. Follows canvas.js, recorder.js and poses.js.

const [CELL, TITLE, GAP, WIDE] = [150, 20, 8, 230];

function build(parent) {
  const view = { parent, playing: !CALM.matches, passed: 0, films: [] };
  for (const place of parent.querySelectorAll("[data-role]")) view[place.dataset.role] = place;
  view.play.onclick = () => setPlaying(view, !view.playing);
  view.save.onclick = () => record(view, view.data.name, "Recording one loop", () => onceAround(view));
  view.resize = new ResizeObserver(() => draw(view));
  view.resize.observe(view.canvas);
  return view;
}

function setPlaying(view, playing) {
  view.playing = playing;
  view.play.textContent = playing ? "Pause the clips" : "Play the clips";
  view.last = null;
  for (const film of view.films) if (film) playing ? film.play().catch(() => {}) : film.pause(); // paused before it began
  if (playing) requestAnimationFrame((now) => advance(view, now));
}

function advance(view, now) {
  if (!view.playing || !view.canvas.isConnected) return;
  if (view.last !== null) view.passed += (now - view.last) / 1000;
  view.last = now;
  draw(view);
  requestAnimationFrame((next) => advance(view, next));
}

// The video of a clip, if its player has one: it goes around by itself within the clip.
function filmOf(view, { recording, start, rate, poses }) {
  const video = window.gdmVideos?.[recording];
  if (!video) return null;
  const film = Object.assign(document.createElement("video"), { muted: true, playsInline: true, src: new URL(video.address.replace(/^\//, ""), new URL(".", location.href)) });
  const at = (frame) => (video.offset + (frame / rate) * video.rate + 0.5) / video.rate;
  film.begin = at(start);
  film.end = at(start + poses.n - 1);
  film.frame = () => Math.min(poses.n - 1, Math.max(0, (film.currentTime - film.begin) * rate));
  film.onloadeddata = () => (film.currentTime = film.begin);
  film.onseeked = () => draw(view);
  return film;
}

function draw(view) {
  const { canvas, data } = view;
  const columns = Math.max(1, Math.floor((canvas.clientWidth + GAP) / (WIDE + GAP)));
  const rows = Math.ceil(data.clips.length / columns);
  canvas.style.height = `${rows * (CELL + TITLE + GAP)}px`;
  const on = paper(view);
  if (!on) return;
  const { pen, width, height } = on;
  const { color, outlineColor, backgroundColor, fontFamily } = getComputedStyle(canvas);
  pen.fillStyle = backgroundColor;
  pen.fillRect(0, 0, width, height);
  const wide = (width - (columns - 1) * GAP) / columns;
  data.clips.forEach((clip, i) => {
    const [left, top] = [(i % columns) * (wide + GAP), Math.floor(i / columns) * (CELL + TITLE + GAP)];
    const film = view.films[i];
    const frame = film?.readyState >= 2 ? film.frame() : (view.passed * clip.rate) % Math.max(1, clip.poses.n - 1);
    if (film && film.currentTime > film.end) film.currentTime = film.begin;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide, CELL);
    pen.clip();
    pen.translate(left, top);
    cell(pen, clip, film, frame, wide, [color, outlineColor]);
    pen.restore();
    pen.strokeStyle = outlineColor;
    pen.globalAlpha = 0.4;
    pen.strokeRect(left + 0.5, top + 0.5, wide - 1, CELL - 1);
    pen.globalAlpha = 1;
    pen.fillStyle = data.colour;
    pen.fillRect(left, top + CELL + 5, 10, 10);
    pen.fillStyle = color;
    pen.font = `13px ${fontFamily}`;
    pen.fillText(clip.said, left + 16, top + CELL + 14, wide - 16);
  });
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
}

function cell(pen, { poses }, film, frame, wide, inks) {
  let toScreen = fitted(poses.box, wide, CELL, 8);
  if (film?.readyState >= 2) {
    toScreen = picture(pen, film, poses.pixels, 0, 0, wide, CELL);
    if (!toScreen) return;
    inks = ["#ffffff", "#ffd27f"];
  }
  skeletons(pen, poses, frame, toScreen, ...inks);
}

async function onceAround(view) {
  view.passed = 0;
  for (const film of view.films) if (film) film.currentTime = film.begin;
  setPlaying(view, true);
  await new Promise((done) => setTimeout(done, 1000 * Math.max(...view.data.clips.map(({ poses, rate }) => poses.n / rate))));
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmClips ??= build(parentElement));
  const key = JSON.stringify(data.clips.map(({ recording, start }) => [recording, start]));
  view.data = unpacked(data);
  view.canvas.setAttribute("aria-label", data.alt);
  if (key !== view.key) {
    view.key = key;
    for (const film of view.films) film?.pause();
    view.films = view.data.clips.map((clip) => filmOf(view, clip));
    view.passed = 0;
    setPlaying(view, view.playing);
  }
  draw(view);
  return () =>
    setTimeout(() => {
      if (parentElement.isConnected || parentElement.gdmClips !== view) return;
      setPlaying(view, false);
      view.resize.disconnect();
      delete parentElement.gdmClips;
    });
}
