const WIDTH = 900,
  HEIGHT = 260,
  LEFT = 56,
  RIGHT = 14,
  TOP = 22,
  BOTTOM = 30;

function render({ model, el }) {
  const root = begin(el, "Compactions");
  const questions = asker(model);
  const session = picker("session", [], "", (value) => put(model, { session: value }), { wide: true });
  const chart = h("div", { class: "cca-chart" });
  const tip = h("div", { class: "cca-tip", role: "status", "aria-live": "polite" });
  const list = h("div", { class: "cca-buttons", role: "group", "aria-label": "compactions" });
  const detail = h("div", { class: "cca-detail", "aria-live": "polite" });
  const legend = h("div", { class: "cca-legend" });
  for (const [name, kind] of [
    ["read from the cache", "cca-read"],
    ["new or written again", "cca-new"],
    ["cache missed", "cca-miss"],
    ["compaction", "cca-cut"],
  ])
    legend.append(
      h("span", { class: "cca-key" }, h("span", { class: `cca-swatch ${kind}` }), h("span", { text: name })),
    );
  root.append(
    h("div", { class: "cca-bar" }, session.node),
    h("div", { class: "cca-framed" }, chart, tip),
    legend,
    list,
    detail,
  );

  const choose = (id) => put(model, { chosen: model.get("chosen") === id ? -1 : id });

  function draw() {
    const v = model.get("view"),
      points = v.points;
    session.show(v.sessions, model.get("session"));
    chart.replaceChildren();
    list.replaceChildren();
    if (!points.length) {
      chart.append(h("p", { class: "cca-note", text: "no calls in this session" }));
      return;
    }
    const first = points[0][0],
      last = points.at(-1)[0],
      span = Math.max(1, last - first + 1);
    const highest = points.reduce((top, p) => Math.max(top, p[1]), 0);
    const steps = niceSteps(Math.max(highest, v.window && v.window < highest * 3 ? v.window : 0)),
      top = steps.at(-1);
    const x = (no) => LEFT + ((no - first) / span) * (WIDTH - LEFT - RIGHT),
      y = (t) => HEIGHT - BOTTOM - (t / top) * (HEIGHT - TOP - BOTTOM);
    const svg = s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "group", "aria-label": "prompt size per call" });
    for (const t of steps)
      svg.append(
        s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(t), y2: y(t), class: "cca-grid" }),
        s("text", { x: LEFT - 6, y: y(t) + 4, class: "cca-tick", "text-anchor": "end", text: short(t, "tokens") }),
      );
    const steplike = (column, from) => {
      let path = `M${x(points[0][0])} ${y(0)}`;
      points.forEach((p, i) => {
        const next = i + 1 < points.length ? points[i + 1][0] : last + 1;
        path += `V${y(from(p))}H${x(next)}`;
      });
      return `${path}V${y(0)}Z`;
    };
    svg.append(
      s("path", { d: steplike(1, (p) => p[1]), class: "cca-new" }),
      s("path", { d: steplike(2, (p) => Math.min(p[2] || 0, p[1])), class: "cca-read" }),
    );
    const width = (WIDTH - LEFT - RIGHT) / span;
    for (const p of points)
      if (p[3]) svg.append(s("path", { d: cross(x(p[0]) + width / 2, y(p[1]) - 9), class: "cca-miss" }));
    if (v.window && v.window <= top)
      svg.append(
        s("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(v.window), y2: y(v.window), class: "cca-window" }),
        s("text", {
          x: WIDTH - RIGHT,
          y: y(v.window) - 5,
          "text-anchor": "end",
          class: "cca-tick",
          text: `window ${short(v.window, "tokens")}`,
        }),
      );
    const ticks = niceSteps(span, 8)
      .map((k) => Math.round(k) + first)
      .filter((k, i, all) => k <= last && all.indexOf(k) === i);
    for (const k of ticks)
      svg.append(
        s("text", { x: x(k) + width / 2, y: HEIGHT - 14, "text-anchor": "middle", class: "cca-tick", text: k }),
      );
    svg.append(
      s("text", {
        x: (LEFT + WIDTH) / 2,
        y: HEIGHT - 1,
        "text-anchor": "middle",
        class: "cca-tick",
        text: "call of the conversation",
      }),
    );
    for (const b of v.boundaries) {
      const at = Math.min(WIDTH - RIGHT, x(b.at + 0.5));
      const group = s("g", {
        class: "cca-boundary",
        role: "button",
        tabindex: "0",
        "data-id": b.id,
        "aria-label": `compaction ${b.label}`,
        on: {
          click: () => choose(b.id),
          keydown: (e) => {
            if (e.key === "Enter" || e.key === " ") {
              choose(b.id);
              e.preventDefault();
            }
          },
        },
      });
      group.append(
        s("title", { text: b.label }),
        s("rect", { x: at - 9, width: 18, y: 0, height: HEIGHT - BOTTOM, class: "cca-catch" }),
        s("line", { x1: at, x2: at, y1: 12, y2: HEIGHT - BOTTOM }),
        s("path", { d: `M${at - 7} 2h14l-7 11z` }),
      );
      svg.append(group);
      list.append(h("button", { type: "button", "data-id": b.id, text: b.label, on: { click: () => choose(b.id) } }));
    }
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(),
        no = first + Math.floor((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / width);
      let at = 0;
      while (at + 1 < points.length && points[at + 1][0] <= no) at++;
      const p = points[at];
      tip.textContent = `call ${p[0]} · ${v.times[at]} · prompt ${short(p[1], "tokens")} tokens, ${short(p[2] || 0, "tokens")} of them from the cache${p[3] ? " · cache missed" : ""}`;
    });
    svg.addEventListener("pointerleave", () => {
      tip.textContent = "";
    });
    chart.append(svg);
    mark();
  }

  const cross = (x, y) => `M${x - 4} ${y - 4}l8 8m0 -8l-8 8`;

  function mark() {
    for (const node of root.querySelectorAll("[data-id]")) {
      const on = Number(node.dataset.id) === model.get("chosen");
      node.classList.toggle("cca-on", on);
      node.setAttribute("aria-pressed", on);
    }
  }

  function show() {
    const d = model.get("detail");
    detail.replaceChildren();
    if (!d.facts) {
      detail.append(
        h("p", {
          class: "cca-note",
          text: model.get("view").boundaries.length
            ? "Choose a compaction to see what was kept and what was put away."
            : "No compaction in this session.",
        }),
      );
      return;
    }
    detail.append(factList(d.facts));
    const summary = textBlock("summary", d.summary);
    if (summary) detail.append(summary);
    for (const which of ["kept", "dropped"]) {
      detail.append(lineList(questions, `${which}: ${d[which]} lines`, { which }, d[which], `.${which}`));
    }
  }

  const stop = listen(model, { view: draw, chosen: mark, detail: show });
  draw();
  show();
  return () => {
    stop();
    questions.stop();
  };
}

export default { render };
