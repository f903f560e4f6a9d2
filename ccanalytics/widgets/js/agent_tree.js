function render({ model, el }) {
  const root = begin(el, "Agent tree");
  const questions = asker(model);
  const session = picker("session", [], "", (value) => put(model, { session: value }), { wide: true });
  const sort = picker("sort by", model.get("view").sorts, model.get("sort"), (value) => put(model, { sort: value }));
  const fold = h("button", { type: "button", text: "unfold all", on: { click: () => put(model, { closed: [] }) } });
  const about = h("div", { class: "cca-about" });
  const legend = h("div", { class: "cca-legend" });
  const detail = h("div", { class: "cca-detail", "aria-live": "polite" });
  const heads = ["run", "own", "incl.", "tokens", "took", "time"].map((text) =>
    h("span", { text, class: `cca-c-${text.replace(".", "")}` }),
  );
  const list = virtualList({
    label: "agent runs; Enter chooses, left and right fold and unfold",
    rowHeight: 26,
    height: 260,
    ask: (from, n) => questions.ask("rows", { from, n }),
    draw: line,
    pick,
  });
  root.append(
    h("div", { class: "cca-bar" }, session.node, sort.node, fold),
    about,
    h("div", { class: "cca-run cca-head" }, ...heads),
    list.node,
    legend,
    detail,
  );

  function line(row) {
    const toggle = h("span", {
      class: "cca-toggle",
      text: row.parent ? (row.open ? "▾" : "▸") : "",
      title: row.parent ? "fold or unfold" : null,
    });
    const name = h(
      "span",
      { class: "cca-c-run", title: `${row.name} (${row.sort_of})` },
      toggle,
      h("span", { text: row.name }),
    );
    name.style.paddingLeft = `${Math.min(row.level, 12) * 14}px`;
    const bar = h("span", { class: "cca-lane" });
    bar.style.left = `${row.left * 100}%`;
    bar.style.width = `max(3px, ${row.width * 100}%)`;
    bar.style.background = row.color;
    const node = h(
      "div",
      {
        class: "cca-row cca-run",
        "aria-level": row.level + 1,
        "aria-expanded": row.parent ? String(row.open) : null,
        "aria-selected": String(row.key === model.get("chosen")),
      },
      name,
      h("span", { class: "cca-c-own", text: row.own }),
      h("span", { class: "cca-c-incl", text: row.incl }),
      h("span", { class: "cca-c-tokens", text: row.tokens }),
      h("span", { class: "cca-c-took", text: row.took }),
      h("span", { class: "cca-c-time" }, bar),
    );
    node.classList.toggle("cca-on", row.key === model.get("chosen"));
    return node;
  }

  function pick(row, _, event) {
    const closed = model.get("closed");
    if (
      (event.target && event.target.classList && event.target.classList.contains("cca-toggle")) ||
      event.key === "ArrowRight" ||
      event.key === "ArrowLeft"
    ) {
      if (!row.parent || (event.key === "ArrowRight" && row.open) || (event.key === "ArrowLeft" && !row.open)) return;
      put(model, { closed: row.open ? [...closed, row.key] : closed.filter((key) => key !== row.key) });
    } else put(model, { chosen: model.get("chosen") === row.key ? "" : row.key });
  }

  function draw() {
    const v = model.get("view");
    session.show(v.sessions, model.get("session"));
    sort.select.value = model.get("sort");
    about.textContent = v.runs
      ? `${v.runs.toLocaleString("en")} run${v.runs === 1 ? "" : "s"}, ${v.total.toLocaleString("en")} shown · ${v.first} to ${v.last}`
      : "no runs in this session";
    legend.replaceChildren();
    for (const [name, color] of v.types) {
      const mark = h("span", { class: "cca-swatch" });
      mark.style.background = color;
      legend.append(h("span", { class: "cca-key" }, mark, h("span", { text: name })));
    }
    list.node.style.height = `${Math.max(60, Math.min(340, v.total * 26 + 4))}px`;
    list.show(v.total, { keep: true });
  }

  function show() {
    const d = model.get("detail");
    detail.replaceChildren();
    if (!d.facts) {
      detail.append(h("p", { class: "cca-note", text: "Choose a run to see its prompt, its result and its tools." }));
      return;
    }
    detail.append(factList(d.facts));
    for (const [title, text] of [
      ["first prompt", d.prompt],
      ["result, as its parent saw it", d.result],
    ]) {
      const block = textBlock(title, text);
      if (block) detail.append(block);
    }
    detail.append(lineList(questions, `entries: ${d.entries}`, {}, d.entries, ".entries"));
    if (d.tools.total)
      detail.append(
        h(
          "details",
          { open: true },
          h("summary", { text: `tools: ${d.tools.total} calls` }),
          dataTable(d.tools, "tool calls of the run"),
        ),
      );
  }

  const stop = listen(model, { view: draw, sort: draw, chosen: () => list.redraw(), detail: show });
  draw();
  show();
  return () => {
    stop();
    list.stop();
    questions.stop();
  };
}

export default { render };
