// All that is used of Plotly beyond what it documents, in one place: where the axes of a drawn figure lie, the edges of a heat
// map's cells, and two things that it works out again at every update.

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

// Sizes are always given, so Plotly need not ask for the node's own: the browser would lay out the page for it.
export const neverAskForSize = (plot) => Object.assign(plot._context, { _hasZeroWidth: true, _hasZeroHeight: true });

// Plotly walks its whole schema for every trace of every update, to learn which attributes hold arrays: two fifths of
// the time of a live update. Traces whose input has arrays in the same places get the same answer.
export function rememberSchema({ PlotSchema: schema }) {
  const walk = schema?.findArrayAttributes;
  if (!walk) return; // another version: slower, and right all the same
  const known = new Map();
  const remembered = (trace) => {
    const places = trace._input && arrayPlaces(trace._input);
    if (!places) return walk(trace);
    const key = `${trace.type} ${places}`;
    if (!known.has(key)) known.set(key, walk(trace));
    return [...known.get(key)];
  };
  schema.findArrayAttributes = Object.assign(remembered, { walk });
}

// Where a trace as it was given holds arrays; null where it holds lists of objects, which may differ inside.
function arrayPlaces(given, path = "in") {
  const found = [path];
  for (const name in given) {
    const item = given[name];
    if (item === null || typeof item !== "object") continue;
    if (Array.isArray(item) && typeof item[0] === "object" && !Array.isArray(item[0])) return null;
    const isArray = Array.isArray(item) || ArrayBuffer.isView(item) || "bdata" in item;
    const below = isArray ? `${path}.${name}` : arrayPlaces(item, `${path}.${name}`);
    if (below === null) return null;
    found.push(below);
  }
  return found.join(" ");
}
