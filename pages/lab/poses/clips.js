// Clips of several recordings as a grid of loops on one canvas. Follows canvas.js and poses.js.

const [CELL, TITLE, GAP, WIDE] = [150, 20, 8, 230];

function build(parent) {
  const view = { parent, playing: !CALM.matches, passed: 0 };
  for (const place of parent.querySelectorAll("[data-role]")) view[place.dataset.role] = place;
  view.play.onclick = () => setPlaying(view, !view.playing);
  view.resize = new ResizeObserver(() => draw(view));
  view.resize.observe(view.canvas);
  return view;
}

function setPlaying(view, playing) {
  view.playing = playing;
  view.play.textContent = playing ? "Pause the clips" : "Play the clips";
  view.last = null;
  if (playing) requestAnimationFrame((now) => advance(view, now));
}

function advance(view, now) {
  if (!view.playing || !view.canvas.isConnected) return;
  if (view.last !== null) view.passed += (now - view.last) / 1000;
  view.last = now;
  draw(view);
  requestAnimationFrame((next) => advance(view, next));
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
    const frame = (view.passed * clip.rate) % Math.max(1, clip.poses.n - 1);
    pen.save();
    pen.beginPath();
    pen.rect(left, top, wide, CELL);
    pen.clip();
    pen.translate(left, top);
    skeletons(pen, clip.poses, frame, fitted(clip.poses.box, wide, CELL, 8), color, outlineColor);
    pen.restore();
    pen.strokeStyle = outlineColor;
    pen.globalAlpha = 0.4;
    pen.strokeRect(left + 0.5, top + 0.5, wide - 1, CELL - 1);
    pen.globalAlpha = 1;
    pen.fillStyle = data.colour;
    pen.fillRect(left, top + CELL + 5, 10, 10);
    pen.fillStyle = color;
    pen.font = `13px ${fontFamily}`;
    pen.fillText(clip.caption, left + 16, top + CELL + 14, wide - 16);
  });
  canvas.dataset.drawn = String(Number(canvas.dataset.drawn ?? 0) + 1);
}

export default function ({ data, parentElement }) {
  const view = (parentElement.gdmClips ??= build(parentElement));
  const key = JSON.stringify(data.clips.map(({ recording, start }) => [recording, start]));
  view.data = unpacked(data);
  view.canvas.setAttribute("aria-label", data.alt);
  if (key !== view.key) {
    view.key = key;
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
