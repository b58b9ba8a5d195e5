// Draw every chart, draw again when the width changes, and, of a page that is served live, fetch what is new.
const DRAW = { line: drawLine, heat: drawHeat, bars: drawBars, scatter: drawScatter };
let charts = {};

function drawAll() {
  charts = JSON.parse(document.getElementById("charts").textContent);
  for (const plot of document.querySelectorAll(".plot")) {
    const chart = charts[plot.dataset.chart];
    DRAW[chart.kind](plot, chart);
    plot.dataset.drawn = "yes";
  }
}

let wide = 0;
new ResizeObserver(() => {
  const now = document.documentElement.clientWidth;
  if (now !== wide) { wide = now; hideTip(); drawAll(); }
}).observe(document.documentElement);
document.addEventListener("keydown", (event) => { if (event.key === "Escape") hideTip(); });

async function refresh() {
  const state = document.getElementById("state");
  try {
    const answer = await fetch(window.location.href, { cache: "no-store" });
    if (!answer.ok) throw new Error(String(answer.status));
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    const old = document.getElementById("version").textContent;
    if (next.getElementById("version").textContent !== old) {
      const open = new Set([...document.querySelectorAll("details[open]")].map((d) => d.id));
      document.querySelector("main").replaceWith(next.querySelector("main"));
      for (const details of document.querySelectorAll("details")) if (open.has(details.id)) details.open = true;
      hideTip();
      drawAll();
    }
    const live = document.querySelector("main").dataset.live;
    document.getElementById("state").textContent = live ? "live" : "done";
    if (live) setTimeout(refresh, 1500);
  } catch {
    if (state) state.textContent = "the program that serves this page has ended";
    setTimeout(refresh, 5000);
  }
}

if (document.querySelector("main").dataset.live) setTimeout(refresh, 1000);
