// Clips of several recordings as a grid of loops. Follows pages/ui/player.js (whose clock counts seconds) and poses.js.

const [CELL, TITLE, GAP, WIDE] = [150, 20, 8, 230];

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
    const frame = (view.at * clip.rate) % Math.max(1, clip.poses.n - 1);
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
  view.time.textContent = `${view.at.toFixed(1)} s`;
  view.scrub.value = String(view.at);
}

export default player({
  of: "key",
  words: ["Play the clips", "Pause the clips"],
  keys: { ArrowRight: 0.1, ArrowLeft: -0.1 },
  loops: true,
  begin: () => 0,
  end: ({ clips }) => Math.max(...clips.map(({ poses, rate }) => (poses.n - 1) / rate)),
  rate: () => 1,
  cursor: ({ at }) => at,
  moment: ({ at }) => at,
  dress: ({ scrub }) => (scrub.step = "any"),
  draw,
});
