"use strict";
// Draws each chart when it comes into view, on the ground that the reader's system prefers.
(() => {
  const templates = JSON.parse(document.getElementById("templates").textContent);
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const printing = matchMedia("print");
  const config = { displaylogo: false, responsive: true,
                   modeBarButtonsToRemove: ["lasso2d", "select2d"] };
  const drawn = new Set();
  const template = () => templates[dark.matches && !printing.matches ? "dark" : "light"];

  function draw(chart) {
    if (drawn.has(chart)) return;
    drawn.add(chart);
    const figure = JSON.parse(document.getElementById(chart.dataset.figure).textContent);
    delete figure.layout.title;  // it stands above as a heading
    figure.layout.template = template();
    if (chart.clientWidth < 520) {  // a legend in one column takes height, not width
      figure.layout.height += 12 * Math.min(10, figure.data.length);
      chart.style.height = `${figure.layout.height}px`;
      for (const trace of figure.data) {  // numbers above narrow columns stand upright
        if (trace.type !== "bar") continue;
        if (trace.orientation !== "h") trace.textangle = -90;
        else if (trace.textposition === "outside" && Array.isArray(trace.text)) {
          trace.text = trace.text.map((text) => text.replace(/ \(.*\)$/, ""));  // no room for why
        }
      }
    }
    Plotly.newPlot(chart, figure.data, figure.layout, config);
  }

  function lay() {
    // A printed page does not tell how wide it is; this fits A4 and Letter.
    const width = printing.matches ? 680 : undefined;
    for (const chart of drawn) {
      Plotly.relayout(chart, { template: template(), width, autosize: !printing.matches });
    }
  }

  const charts = document.querySelectorAll(".chart");
  const watch = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) draw(entry.target);
  }, { rootMargin: "400px" });
  charts.forEach((chart) => watch.observe(chart));
  dark.addEventListener("change", lay);
  printing.addEventListener("change", lay);
  addEventListener("beforeprint", () => {
    document.querySelectorAll("details.run").forEach((run) => { run.open = true; });
    charts.forEach(draw);
  });
  // A link into a run that is folded away opens it.
  function unfold() {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    const run = target && target.closest("details");
    if (run && !run.open) { run.open = true; target.scrollIntoView(); }
  }
  addEventListener("hashchange", unfold);
  unfold();
})();
