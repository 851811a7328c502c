// Tells the page its address after Back and Forward (pages/ui/settings.py).
let tell = () => null;
window.addEventListener("popstate", () => tell(location.pathname.replace(/\/$/, "")), true);

export default function ({ data, setStateValue }) {
  // Ignore changes of address that belong to another page.
  tell = (path) => path.endsWith(data.page) && setStateValue("address", `${location.search}#${performance.now()}`);
}
