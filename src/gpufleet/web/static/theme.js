// Sets light or dark before anything is drawn, so that a dark page never appears light first.
(() => {
  const root = document.documentElement;
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  try {
    chosen = localStorage.getItem("gpufleet-theme");
  } catch {
    // Without storage the choice lasts until the page is closed.
  }
  const show = () => {
    root.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    dispatchEvent(new Event("gpufleet-theme"));
  };
  window.gpufleetTheme = {
    isDark: () => root.dataset.theme === "dark",
    change() {
      chosen = root.dataset.theme === "dark" ? "light" : "dark";
      try {
        localStorage.setItem("gpufleet-theme", chosen);
      } catch {
        // As above.
      }
      show();
    },
  };
  system.addEventListener("change", show);
  show();
})();
