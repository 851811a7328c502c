// Tells the page its address after Back and Forward (pages/ui/settings.py). As the first component of a page, it begins to load
// what figures need.
import { loadPlotly } from "./plotly.js";

let tell = () => null;
window.addEventListener("popstate", () => tell(location.pathname.replace(/\/$/, "")), true);

export default function ({ data, setStateValue }) {
  if (data.page) loadPlotly(); // figures report a failure
  // Ignore changes of address that belong to another page. Home has no settings.
  tell = (path) => data.page && path.endsWith(`/${data.page}`) && setStateValue("address", `${location.search}#${performance.now()}`);
}
