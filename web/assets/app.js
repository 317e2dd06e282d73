"use strict";
// Without this file every page works. With it, times are in the viewer's zone, and parts of pages are live.
function times(root) {
  const form = new Intl.DateTimeFormat(undefined, {
    year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZoneName: "short",
  });
  for (const t of root.querySelectorAll("time[datetime]")) {
    const at = new Date(t.dateTime);
    if (!isNaN(at)) {
      t.title = t.dateTime;
      t.textContent = form.format(at);
    }
  }
}
times(document);

const main = document.getElementById("main");
const part = document.getElementById("live");
if (main.dataset.live && part && window.EventSource) {
  const source = new EventSource(main.dataset.live);
  const put = (e) => {
    if (part.contains(document.activeElement) || part.querySelector("details[open]")) return; // somebody is at it
    part.innerHTML = e.data; // the server's own template, escaped there
    times(part);
  };
  source.addEventListener("part", put);
  source.addEventListener("end", (e) => {
    source.close();
    part.innerHTML = e.data;
    times(part);
  });
  addEventListener("pagehide", () => source.close());
}

addEventListener("keydown", (e) => {
  if (e.key === "/" && !e.ctrlKey && !e.metaKey && !e.altKey && !/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName)) {
    e.preventDefault();
    document.getElementById("find").focus();
  }
});
