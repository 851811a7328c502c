// Figures of the gallery: Plotly, which lies beside this file, is loaded where a page has one; figures follow the page's theme.
(() => {
  const places = [...document.querySelectorAll(".gdm-figure")];
  if (!places.length) return;
  const own = document.currentScript || document.querySelector('script[src*="gallery.js"]');
  // The colours of light figures and what stands for them in the dark: gdm_studio/plot writes the light ones.
  const DARK = {
    "#1d1f27": "#e8e9ee", "#5d6172": "#a3a8b8", "#9ba0ae": "#6c7284", "#e8eaf0": "#272b34", "#cfd3dd": "#3b404c",
    "#ffffff": "#1a1d23", "#17789f": "#46a0b5",
    "rgba(23,120,159,0.18)": "rgba(95,183,201,0.18)", "rgba(23,120,159,0.30)": "rgba(95,183,201,0.32)",
  };
  const dark = () => {
    const theme = document.body.dataset.theme;
    return theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  };
  const draw = () => {
    for (const place of places) {
      const text = place.querySelector("script").textContent;
      const figure = JSON.parse(text, (_, value) => (dark() && typeof value === "string" && DARK[value]) || value);
      const paper = place.querySelector(".plot") || place.appendChild(Object.assign(document.createElement("div"), { className: "plot" }));
      Plotly.react(paper, figure.data, { ...figure.layout, autosize: true, width: undefined }, { responsive: true, displaylogo: false, displayModeBar: false });
    }
  };
  const plotly = document.createElement("script");
  plotly.src = new URL("plotly.min.js", own.src).href;
  plotly.onload = () => {
    draw();
    new MutationObserver(draw).observe(document.body, { attributes: true, attributeFilter: ["data-theme"] });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  };
  document.head.append(plotly);
})();
