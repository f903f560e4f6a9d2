const WIDTH = 900,
  HEIGHT = 260,
  LEFT = 56,
  RIGHT = 10,
  TOP = 10,
  BOTTOM = 26;

function render({ model, el }) {
  const root = begin(el, "Usage over time");
  const view = () => model.get("view");
  const change = (name) => (value) => put(model, { [name]: value });
  const fields = {};
  for (const name of ["measure", "by", "every"])
    fields[name] = picker(name, view().choices[name], model.get(name), change(name));
  const day = (name) => {
    const input = h("input", {
      type: "date",
      "aria-label": name,
      value: model.get(name),
      on: { change: (e) => put(model, { [name]: e.target.value }) },
    });
    return { node: h("label", { class: "cca-field" }, h("span", { text: name }), input), input };
  };
  const since = day("since"),
    until = day("until");
  const filters = {};
  for (const name of ["project", "model", "agent_type"])
    filters[name] = picker(name.replace("_", " "), [["", "all"]], "", (value) => {
      const now = { ...model.get("filters") };
      if (value) now[name] = value;
      else delete now[name];
      put(model, { filters: now });
    });
  const about = h("div", { class: "cca-about" });
  const legend = h("div", { class: "cca-legend" });
  const chart = h("div", { class: "cca-chart" });
  const tip = h("div", { class: "cca-tip", role: "status", "aria-live": "polite" });
  const said = h("div", { class: "cca-about", role: "status", "aria-live": "polite" });
  const rows = h("div");
  root.append(
    h(
      "div",
      { class: "cca-bar" },
      fields.measure.node,
      fields.by.node,
      fields.every.node,
      since.node,
      until.node,
      filters.project.node,
      filters.model.node,
      filters.agent_type.node,
    ),
    about,
    h("div", { class: "cca-framed" }, chart, tip),
    legend,
    said,
    rows,
  );
  let active = -1,
    from = null;

  function choose(first, last, series) {
    const now = model.get("chosen");
    const same = now.from === first && now.to === last && (now.series || null) === series;
    put(model, { chosen: same ? {} : { from: first, to: last, series } });
  }

  function draw() {
    const v = view(),
      n = v.labels.length;
    about.textContent = v.about;
    chart.replaceChildren();
    legend.replaceChildren();
    if (!n) {
      chart.append(h("p", { class: "cca-note", text: "no calls with a time" }));
      return;
    }
    const sums = v.labels.map((_, i) => v.series.reduce((sum, one) => sum + one.values[i], 0));
    const steps = niceSteps(Math.max(...sums)),
      top = steps.at(-1);
    const step = (WIDTH - LEFT - RIGHT) / n,
      y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - TOP - BOTTOM);
    const svg = s("svg", {
      viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
      role: "group",
      tabindex: "0",
      "aria-label": `${v.measure} per ${v.step}; arrow keys move, Enter chooses, Shift extends, Escape clears`,
    });
    for (const value of steps) {
      svg.append(s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "cca-grid" }));
      svg.append(
        s("text", {
          x: LEFT - 6,
          y: y(value) + 4,
          class: "cca-tick",
          "text-anchor": "end",
          text: short(value, v.measure),
        }),
      );
    }
    svg.append(
      s("text", {
        x: 12,
        y: TOP + 4,
        class: "cca-tick",
        transform: `rotate(-90 12 ${(HEIGHT - BOTTOM) / 2}) translate(0 ${(HEIGHT - BOTTOM) / 2 - TOP})`,
        "text-anchor": "middle",
        text: v.unit,
      }),
    );
    const every = Math.max(1, Math.ceil(n / 9));
    for (let i = 0; i < n; i += every)
      svg.append(
        s("text", {
          x: LEFT + (i + 0.5) * step,
          y: HEIGHT - 8,
          class: "cca-tick",
          "text-anchor": "middle",
          text: v.labels[i],
        }),
      );
    const bars = s("g");
    const below = new Array(n).fill(0);
    for (const one of v.series)
      one.values.forEach((value, i) => {
        if (!(value > 0)) return;
        const y1 = y(below[i] + value),
          y0 = y(below[i]);
        below[i] += value;
        bars.append(
          s("rect", {
            x: LEFT + i * step + step * 0.05,
            width: Math.max(step * 0.9, 0.6),
            y: y1,
            height: Math.max(y0 - y1, 0.4),
            fill: one.color,
            class: "cca-box",
            "data-bin": i,
            "data-series": one.key,
          }),
        );
      });
    svg.append(bars, s("rect", { class: "cca-brush" }));
    chart.append(svg);
    wire(svg, step, n, sums);
    for (const one of [...v.series].reverse()) {
      const mark = h("span", { class: "cca-swatch" });
      mark.style.background = one.color;
      legend.append(
        h(
          "button",
          {
            type: "button",
            class: "cca-key",
            title: `choose the calls of ${one.name}`,
            on: { click: () => choose(0, n - 1, one.key) },
          },
          mark,
          h("span", { text: one.name }),
        ),
      );
    }
    mark();
  }

  function wire(svg, step, n, sums) {
    const binAt = (event) => {
      const box = svg.getBoundingClientRect();
      return Math.floor((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / step);
    };
    const inside = (i) => Math.max(0, Math.min(n - 1, i));
    svg.addEventListener("pointerdown", (event) => {
      if (event.button === 0) {
        from = inside(binAt(event));
        svg.setPointerCapture(event.pointerId);
      }
    });
    svg.addEventListener("pointermove", (event) => {
      const i = inside(binAt(event));
      if (from !== null && i !== from) brush(Math.min(from, i), Math.max(from, i));
      tell(i, sums);
    });
    svg.addEventListener("pointerup", (event) => {
      if (from === null) return;
      const i = inside(binAt(event)),
        first = Math.min(from, i),
        last = Math.max(from, i);
      from = null;
      // The pointer is captured, so the box under it has to be looked up.
      const box = document
        .elementsFromPoint(event.clientX, event.clientY)
        .find((node) => node.dataset && node.dataset.bin !== undefined && svg.contains(node));
      choose(first, last, first === last && box && Number(box.dataset.bin) === first ? box.dataset.series : null);
    });
    svg.addEventListener("pointercancel", () => {
      from = null;
      mark();
    });
    svg.addEventListener("pointerleave", () => {
      tip.textContent = "";
    });
    svg.addEventListener("keydown", (event) => {
      const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const now = model.get("chosen");
      if (move) {
        active = inside(active + move);
        tell(active, sums);
        if (event.shiftKey && now.from !== undefined)
          choose(Math.min(now.from, active), Math.max(now.to, active), null);
        mark();
      } else if (event.key === "Enter" || event.key === " ") choose(inside(active), inside(active), null);
      else if (event.key === "Escape") put(model, { chosen: {} });
      else return;
      event.preventDefault();
    });
  }

  function tell(i, sums) {
    const v = view();
    const parts = v.series
      .filter((one) => one.values[i] > 0)
      .map((one) => `${one.name} ${short(one.values[i], v.measure)}`);
    tip.textContent = `${v.labels[i]}: ${short(sums[i], v.measure)} ${v.measure === "cost" ? "" : v.unit}${parts.length > 1 ? " (" + parts.join(", ") + ")" : ""}`;
  }

  function brush(first, last) {
    const svg = chart.querySelector("svg"),
      n = view().labels.length,
      step = (WIDTH - LEFT - RIGHT) / n;
    const rect = svg && svg.querySelector(".cca-brush");
    if (rect)
      fill(
        rect,
        { x: LEFT + first * step, width: (last - first + 1) * step, y: TOP, height: HEIGHT - TOP - BOTTOM },
        [],
      );
  }

  function mark() {
    const now = model.get("chosen"),
      any = now.from !== undefined;
    for (const box of chart.querySelectorAll(".cca-box")) {
      const i = Number(box.dataset.bin);
      const on = any && i >= now.from && i <= now.to && (!now.series || now.series === box.dataset.series);
      box.classList.toggle("cca-pale", any && !on);
      box.classList.toggle("cca-cursor", i === active);
    }
    const rect = chart.querySelector(".cca-brush");
    if (rect) rect.setAttribute("width", 0);
    if (any && now.to > now.from && !now.series) brush(now.from, now.to);
  }

  function detail() {
    const d = model.get("detail"),
      any = d.table && d.table.total > 0;
    said.textContent = any
      ? `chosen: ${d.about}`
      : "Click a bar, or drag over several, to choose the calls behind them.";
    rows.replaceChildren(any ? dataTable(d.table, "calls chosen") : "");
  }

  function sync() {
    for (const name of ["measure", "by", "every"]) fields[name].select.value = model.get(name);
    since.input.value = model.get("since");
    until.input.value = model.get("until");
    for (const [name, filter] of Object.entries(filters))
      filter.show([["", "all"], ...view().filters[name].map((v) => [v, v])], model.get("filters")[name] || "");
  }

  const stop = listen(model, {
    view: () => {
      active = -1;
      sync();
      draw();
    },
    chosen: mark,
    detail,
    measure: sync,
    by: sync,
    every: sync,
    since: sync,
    until: sync,
    filters: sync,
  });
  sync();
  draw();
  detail();
  return stop;
}

export default { render };
