// The shares of one moment as bars. Follows pages/ui/player.js, whose clock counts samples: playing moves the cursor of all figures.

const [ROW, LEFT, RIGHT] = [17, 68, 44];

function draw(view) {
  const { canvas, data } = view;
  const k = data.names.length;
  canvas.style.height = `${k * ROW + 4}px`;
  const on = paper(view);
  if (!on) return;
  const { pen, width } = on;
  const { color, fontFamily } = getComputedStyle(canvas);
  const i = Math.round(view.at);
  pen.font = `12px ${fontFamily}`;
  pen.textBaseline = "middle";
  const room = width - LEFT - RIGHT;
  data.names.forEach((name, state) => {
    const share = data.shares[i * k + state] / 255;
    const middle = state * ROW + ROW / 2 + 2;
    pen.fillStyle = color;
    pen.globalAlpha = 0.12;
    pen.fillRect(LEFT, middle - 5, room, 10);
    pen.globalAlpha = 1;
    pen.textAlign = "right";
    pen.fillText(name, LEFT - 8, middle, LEFT - 10);
    pen.fillText(`${Math.round(100 * share)}%`, width - 4, middle);
    pen.fillStyle = data.colours[state];
    pen.fillRect(LEFT, middle - 5, room * share, 10);
  });
  const time = data.start + view.at * data.step;
  view.time.textContent = data.unit === "step" ? `step ${Math.round(time)}` : `${time.toFixed(1)} ${data.unit}`;
  view.scrub.value = String(i);
  view.scrub.setAttribute("aria-valuetext", view.time.textContent);
  canvas.dataset.sample = i;
}

const CONTROLS = "a, button, canvas, input, select, summary, textarea, [contenteditable], [role]:not([role=main])";

// Space plays wherever no control has the focus.
function pressedAnywhere(view) {
  return {
    keydown: (event) => {
      const [focused] = event.composedPath(); // also within other components
      if (event.key !== " " || event.ctrlKey || event.metaKey || focused.closest?.(CONTROLS)) return;
      event.preventDefault();
      pressed(view, " ");
    },
  };
}

export default player({
  of: "recording",
  words: ["Play", "Pause"],
  keys: { ArrowRight: 1, ArrowLeft: -1, PageDown: 30, PageUp: -30 },
  follow: true,
  begin: () => 0,
  end: ({ n }) => n - 1,
  rate: ({ rate }) => rate,
  cursor: ({ data, at }) => data.start + at * data.step,
  moment: ({ data }, time) => (time - data.start) / data.step,
  dress: () => {},
  draw,
  listens: pressedAnywhere,
});
