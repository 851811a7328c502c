// All that is used of Plotly beyond what it documents, in one place: where the axes of a drawn figure lie, and the edges of
// a heat map's cells. A test says in words when a name is gone (tests/unit/test_private_names.py).

const axis = (full) => ({
  start: full._offset, // pixels from the figure's corner
  length: full._length,
  range: full.range,
  autorange: full.autorange,
  at: (value) => full._offset + full.l2p(value), // from data to pixels from the figure's corner
  value: (pixels) => full.p2l(pixels - full._offset),
  category: (value) => full.c2p(value),
});

// Null while the figure has not been drawn yet.
export function frameOf(plot) {
  const full = plot?._fullLayout;
  if (!full?.xaxis) return null;
  const { width, height, dragmode, annotations } = full;
  const panels = () => Object.keys(full).filter((name) => /^yaxis\d*$/.test(name)).map((name) => axis(full[name]));
  return { x: axis(full.xaxis), y: axis(full.yaxis), width, height, dragmode, annotations, panels };
}

// { x, y }: the edges of the first heat map's cells.
export const edgesOfCells = (plot) => plot.calcdata[0][0];
