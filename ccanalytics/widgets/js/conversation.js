function render({ model, el }) {
  const root = begin(el, "Conversation");
  const questions = asker(model);
  const view = () => model.get("view");
  const session = picker("session", [], "", (value) => put(model, { session: value }), { wide: true });
  const agent = picker("thread", [["", "main thread"]], "", (value) => put(model, { agent: value }));
  const mode = picker(
    "show",
    [
      ["history", "whole history"],
      ["resume", "what a resume loads"],
    ],
    model.get("mode"),
    (value) => put(model, { mode: value }),
  );
  const search = h("input", {
    type: "search",
    placeholder: "search the text, then Enter",
    "aria-label": "search",
    value: model.get("search"),
    on: { change: (e) => put(model, { search: e.target.value }) },
  });
  const kinds = h("div", { class: "cca-kinds", role: "group", "aria-label": "kinds of lines" });
  for (const kind of view().kinds) {
    const box = h("input", {
      type: "checkbox",
      value: kind,
      on: {
        change: () => {
          const on = [...kinds.querySelectorAll("input")].filter((b) => b.checked).map((b) => b.value);
          put(model, { kinds: on.length === view().kinds.length ? [] : on });
        },
      },
    });
    kinds.append(h("label", {}, box, h("span", { text: kind })));
  }
  const about = h("div", { class: "cca-about", role: "status", "aria-live": "polite" });
  const detail = h("div", { class: "cca-detail cca-side", "aria-live": "polite" });
  const list = virtualList({
    label: "lines of the conversation; Enter chooses, Shift adds",
    rowHeight: 44,
    height: 400,
    ask: (from, n) => questions.ask("rows", { from, n }),
    draw: line,
    pick,
  });
  root.append(
    h(
      "div",
      { class: "cca-bar" },
      session.node,
      agent.node,
      mode.node,
      h("label", { class: "cca-field cca-grow" }, h("span", { text: "search" }), search),
    ),
    kinds,
    about,
    h("div", { class: "cca-split" }, list.node, detail),
  );

  function line(row) {
    const marks = h("span", { class: "cca-marks" });
    for (const mark of row.marks) marks.append(h("span", { class: "cca-mark", text: mark }));
    const on = model.get("chosen").includes(row.id) && row.id >= 0;
    const node = h(
      "div",
      {
        class: `cca-row cca-line${row.faded ? " cca-faded" : ""}${on ? " cca-on" : ""}`,
        "data-kind": row.kind,
        "aria-selected": String(on),
      },
      h(
        "span",
        { class: "cca-who" },
        h("b", { text: row.kind }),
        h("span", { class: "cca-when", text: row.time }),
        row.branch ? h("span", { class: "cca-branch", text: `branch ${row.branch}` }) : null,
        marks,
      ),
      h("span", { class: "cca-says", text: row.text }),
    );
    node.title = row.type;
    return node;
  }

  function pick(row, _, event) {
    if (row.id < 0 || (event.key && event.key.startsWith("Arrow"))) return;
    const now = model.get("chosen"),
      has = now.includes(row.id);
    const next =
      event.shiftKey || event.ctrlKey || event.metaKey
        ? has
          ? now.filter((id) => id !== row.id)
          : [...now, row.id]
        : has && now.length === 1
          ? []
          : [row.id];
    put(model, { chosen: next });
  }

  function sync() {
    const v = view(),
      kept = model.get("kinds");
    session.show(v.sessions, model.get("session"));
    agent.show([["", "main thread"], ...v.agents.map((id) => [id, id])], model.get("agent"));
    mode.select.value = model.get("mode");
    search.value = model.get("search");
    for (const box of kinds.querySelectorAll("input")) box.checked = !kept.length || kept.includes(box.value);
  }

  function draw() {
    sync();
    const v = view();
    about.textContent = v.note || `${v.total.toLocaleString("en")} of ${v.lines.toLocaleString("en")} lines`;
    list.show(v.total);
  }

  function show() {
    const d = model.get("detail");
    detail.replaceChildren();
    if (d.id === undefined) {
      detail.append(h("p", { class: "cca-note", text: "Choose a line to read it whole." }));
      return;
    }
    const raw = h("details", {}, h("summary", { text: "raw JSON" }));
    raw.addEventListener("toggle", async () => {
      if (raw.open && raw.children.length === 1)
        raw.append(h("pre", { class: "cca-text", tabindex: "0", text: await questions.ask("raw", { of: d.id }) }));
    });
    detail.append(factList(d.facts), h("pre", { class: "cca-text cca-words", tabindex: "0", text: d.text }), raw);
  }

  const stop = listen(model, {
    view: draw,
    chosen: () => list.redraw(),
    detail: show,
    kinds: sync,
    search: sync,
    agent: sync,
    mode: sync,
  });
  draw();
  show();
  return () => {
    stop();
    list.stop();
    questions.stop();
  };
}

export default { render };
