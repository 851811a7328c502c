// Axes of a figure that Plotly has drawn: ranges from its layout, pixels from the page.

// Return { x, y, panels } in pixels from the figure's corner, null if not drawn; panels are y axes from top to bottom.
export function axesOf(plot) {
  const areas = [...(plot?.querySelectorAll(".nsewdrag") ?? [])].map((area) => area.getBBox());
  if (!areas.length || !plot.layout?.xaxis?.range) return null;
  const [{ x, y, width, height }] = areas;
  const panels = areas.map((area) => ({ start: area.y, length: area.height }));
  return { x: axis(plot.layout.xaxis, x, x, width), y: axis(plot.layout.yaxis, y, y + height, -height), panels };
}

// The range begins at pixel `from` and is `span` pixels long.
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
