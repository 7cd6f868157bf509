
"use strict";
(() => {
  const cases = [...document.querySelectorAll(".case")];
  const form = document.querySelector(".filters");
  const shown = document.querySelector(".shown");
  const none = document.querySelector(".none");
  const words = new Map(cases.map((one) => [one, one.textContent.toLowerCase()]));
  const visible = () => cases.filter((one) => !one.classList.contains("aside"));

  const filter = () => {
    const outcome = form.elements.outcome.value;
    const group = form.elements.group.value;
    const search = form.elements.search.value.trim().toLowerCase();
    for (const one of cases) {
      const fits = (!outcome || one.dataset.outcome === outcome) && (!group || one.dataset.group === group)
        && (!search || words.get(one).includes(search));
      one.classList.toggle("aside", !fits);
    }
    const count = visible().length;
    shown.textContent = count === cases.length ? "" : `${count} of ${cases.length} cases shown`;
    none.hidden = count > 0;
  };
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  for (const button of form.querySelectorAll("[data-all]")) {
    button.addEventListener("click", () => {
      for (const one of visible()) one.open = button.dataset.all === "open";
    });
  }

  const dialog = document.querySelector("dialog");
  for (const button of document.querySelectorAll(".picture")) {
    button.addEventListener("click", () => {
      const from = button.querySelector("img");
      const to = dialog.querySelector("img");
      to.src = from.src;
      to.alt = from.alt;
      dialog.showModal();
    });
  }
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });

  const step = (by) => {
    const list = visible();
    const at = list.findIndex((one) => one.contains(document.activeElement));
    const next = list[at < 0 ? (by > 0 ? 0 : list.length - 1) : at + by];
    if (next) {
      next.querySelector("summary").focus();
      next.scrollIntoView({ block: "nearest" });
    }
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName) && document.activeElement.type !== "radio") return;
    if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "/") { event.preventDefault(); form.elements.search.focus(); }
  });

  // Paper has no triangles to click on.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = cases.filter((one) => !one.open);
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
})();
