// Runs before anything is drawn, so that a dark page never flashes light.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("gpufleet-report-theme");
  } catch {
    // A page opened from a file may have no storage; the choice then lasts until it is closed.
  }
  const show = () => {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    const toggle = document.getElementById("theme");
    if (toggle) toggle.setAttribute("aria-pressed", String(root.dataset.theme === "dark"));
  };
  system.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    const toggle = document.getElementById("theme");
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("gpufleet-report-theme", chosen);
      } catch {
        // As above.
      }
      show();
    });
    show();
  });
  show();
})();
