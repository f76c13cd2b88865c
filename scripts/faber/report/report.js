"use strict";
(() => {
  const form = document.getElementById("filter");
  if (!form) return;
  const [search, type, phase, shown, none] = ["search", "type", "phase", "shown", "none"].map((id) => document.getElementById(id));
  const lists = [...document.querySelectorAll("#events > ol")];
  let rows = null;
  const read = () => {
    rows ??= lists.map((list) => [...list.children].map((row) => ({
      row,
      type: row.querySelector("b").textContent,
      phase: row.dataset.p ?? "",
      notable: row.classList.contains("n"),
      text: row.textContent.toLowerCase(),
    })));
  };
  const apply = () => {
    read();
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    let all = 0;
    lists.forEach((list, at) => {
      let here = 0;
      for (const each of rows[at]) {
        const fits = (!type.value || (type.value === "!" ? each.notable : each.type === type.value)) &&
          (!phase.value || each.phase === phase.value) && words.every((word) => each.text.includes(word));
        each.row.hidden = !fits;
        here += fits;
      }
      list.hidden = !here;
      found += here;
      all += rows[at].length;
    });
    const number = new Intl.NumberFormat("en");
    shown.value = found === all ? `${number.format(all)} events` : `${number.format(found)} of ${number.format(all)} events`;
    none.hidden = found > 0;
  };
  let waiting = 0;
  const soon = () => {
    clearTimeout(waiting);
    waiting = setTimeout(apply, 120);
  };
  form.hidden = false;
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", soon);
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      search.focus();
      search.scrollIntoView({ block: "center" });
    } else if (event.key === "Escape" && typing) {
      search.value = type.value = phase.value = "";
      apply();
    }
  });
})();
