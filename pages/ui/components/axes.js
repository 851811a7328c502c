// Where the axes of a figure lie that Plotly has drawn: its layout has the ranges, the page the rectangles between the axes.

// { x, y, panels } in pixels from the figure's corner, null while it is not drawn; panels are the y axes from top to bottom.
export function axesOf(plot) {
  const areas = [...(plot?.querySelectorAll(".nsewdrag") ?? [])].map((area) => area.getBBox());
  if (!areas.length || !plot.layout?.xaxis?.range) return null;
  const [{ x, y, width, height }] = areas;
  const panels = areas.map((area) => ({ start: area.y, length: area.height }));
  return { x: axis(plot.layout.xaxis, x, x, width), y: axis(plot.layout.yaxis, y, y + height, -height), panels };
}

// `from` is the pixel where the range begins, from which it goes `span` pixels.
function axis({ range: [low, high], autorange }, start, from, span) {
  const pixels = span / (high - low);
  return {
    start,
    length: Math.abs(span),
    range: [low, high],
    autorange,
    at: (value) => from + (value - low) * pixels,
    value: (pixel) => low + (pixel - from) / pixels,
  };
}
