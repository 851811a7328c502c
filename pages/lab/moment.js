// The shares of one moment as bars. Follows pages/ui/player.js, whose clock counts samples: playing moves the cursor of all figures.

const [ROW, ROWS, LEFT, RIGHT] = [17, 6, 76, 44]; // so many rows in a column, which makes every K as high

function draw(view) {
  const { canvas, data } = view;
  const k = data.names.length;
  canvas.style.height = `${ROWS * ROW + 4}px`;
  const on = paper(view);
  if (!on) return;
  const { pen, width } = on;
  const { color, fontFamily } = getComputedStyle(canvas);
  const i = Math.round(view.at);
  pen.font = `12px ${fontFamily}`;
  pen.textBaseline = "middle";
  const wide = width / Math.ceil(k / ROWS);
  const widest = Math.max(...data.names.map((name) => pen.measureText(name).width));
  const names = Math.max(LEFT, Math.min(widest + 10, wide / 3));
  const room = wide - names - RIGHT;
  data.names.forEach((name, state) => {
    const share = data.shares[i * k + state] / 255;
    const left = Math.floor(state / ROWS) * wide + names;
    const middle = (state % ROWS) * ROW + ROW / 2 + 2;
    pen.fillStyle = color;
    pen.globalAlpha = 0.12;
    pen.fillRect(left, middle - 5, room, 10);
    pen.globalAlpha = 1;
    pen.textAlign = "right";
    pen.fillText(name, left - 8, middle, names - 10);
    pen.fillText(`${Math.round(100 * share)}%`, left + room + RIGHT - 4, middle);
    pen.fillStyle = data.colours[state];
    pen.fillRect(left, middle - 5, room * share, 10);
  });
  const time = data.start + view.at * data.step;
  view.time.textContent = data.unit === "step" ? `step ${Math.round(time)}` : `${time.toFixed(1)} ${data.unit}`;
  view.scrub.value = String(i);
  view.scrub.setAttribute("aria-valuetext", view.time.textContent);
  canvas.dataset.sample = i;
}

// Next to poses their player has the clock, and the bars follow it.
function dress({ canvas, data }) {
  canvas.tabIndex = data.follows ? -1 : 0;
  canvas.parentElement.toggleAttribute("data-follows", data.follows);
}

function begin({ follows, group, start, step }) {
  if (!follows) return 0;
  const detail = { group, time: start };
  window.dispatchEvent(new CustomEvent(WHERE, { detail }));
  return (detail.time - start) / step;
}

export default player({
  of: "recording",
  words: ["Play", "Pause"],
  keys: { ArrowRight: 1, ArrowLeft: -1, PageDown: 30, PageUp: -30 },
  follow: true,
  begin,
  end: ({ n }) => n - 1,
  rate: ({ rate }) => rate,
  cursor: ({ data, at }) => data.start + at * data.step,
  moment: ({ data }, time) => (time - data.start) / data.step,
  dress,
  draw,
});
