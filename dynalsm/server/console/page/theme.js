// Runs before the first paint, so that a chosen theme does not flash. Not a module: those wait.
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("dynalsm.theme");
  } catch {
    // Storage may be switched off; the system's theme is used then.
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
