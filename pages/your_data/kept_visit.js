// The token of a visit: this browser tab holds it while there is a file, so that a reload finds the file again. Nobody else
// can read it, and it opens nothing two minutes after the visit has ended.

const NAME = "gdm-visit";

export default function ({ data, parentElement, setStateValue }) {
  if (data.token !== null) {
    sessionStorage.setItem(NAME, data.token);
    return;
  }
  const kept = sessionStorage.getItem(NAME);
  if (data.over) {
    sessionStorage.removeItem(NAME); // the file was taken away, or the token opened nothing
  } else if (kept !== null && parentElement.gdmAsked !== kept) {
    parentElement.gdmAsked = kept; // a session that knows of no file: the page was reloaded
    setStateValue("kept", kept);
  }
}
