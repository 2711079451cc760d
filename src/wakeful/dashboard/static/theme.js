// Runs before the page is painted, so that a remembered theme does not flash.
"use strict";
(() => {
  let kept = null;
  try {
    kept = localStorage.getItem("wakeful-theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept;
})();
