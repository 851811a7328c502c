// Plotly. Its cartesian build starts in a third of the time; only the whole library draws with WebGL, and then replaces it.

const builds = {};

// Load the build that draws these traces.
export function loadPlotly(traces = []) {
  const whole = "plotly.min.js";
  const name = builds[whole] || traces.some(({ type }) => type?.endsWith("gl")) ? whole : "plotly-cartesian.min.js";
  builds[name] ??= new Promise((resolve, reject) => {
    const script = document.createElement("script");
    script.src = new URL(name, import.meta.url);
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error("The plotting library could not be loaded."));
    document.head.appendChild(script);
  });
  builds[name].catch(() => delete builds[name]);
  return builds[name];
}
