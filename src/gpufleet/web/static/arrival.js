// Asks for the page again when a part of it does not arrive. A browser cuts all requests when an address of the machine
// changes (a network that is joined, a bridge of containers), and without one of its modules a page stays empty.
(() => {
  const AGAIN_MS = 1000;
  let isAsked = false;
  const again = () => {
    if (isAsked) return;
    isAsked = true;
    const words = document.createElement("p");
    words.className = "lone";
    words.textContent = "A part of this page did not arrive. It is asked for again.";
    const place = document.getElementById("page");
    if (place && !place.childElementCount) place.append(words);
    setTimeout(() => location.reload(), AGAIN_MS);
  };
  // Errors of elements do not rise to the window; they are seen on their way down.
  addEventListener("error", ({ target }) => {
    if (target instanceof HTMLScriptElement || (target instanceof HTMLLinkElement && target.rel === "stylesheet")) again();
  }, true);
  window.gpufleetArrival = { again };
})();
