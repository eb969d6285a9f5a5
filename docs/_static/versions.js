"use strict";

// Fill the version switch with the other versions. A page that is opened as a file may not read a list.
async function showVersions(switch_) {
  const list = new URL(switch_.dataset.list, location.href);
  const answer = await fetch(list);
  if (!answer.ok) return;
  const lines = (await answer.json()).map(({ version, url }) => {
    const line = document.createElement("li");
    if (version === switch_.dataset.version) {
      line.textContent = version;
      line.setAttribute("aria-current", "page");
    } else {
      const link = document.createElement("a");
      link.textContent = version;
      link.href = new URL(url, list);
      line.append(link);
    }
    return line;
  });
  switch_.querySelector("ul").replaceChildren(...lines);
}

document.addEventListener("DOMContentLoaded", () => {
  if (location.protocol.startsWith("http")) document.querySelectorAll(".versions").forEach(showVersions);
});
