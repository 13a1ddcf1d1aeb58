"use strict";
for (const table of document.querySelectorAll("table.sortable")) {
  table.querySelectorAll("th").forEach((head, column) => {
    let down = true;
    head.addEventListener("click", () => {
      const body = table.tBodies[0];
      const number = head.classList.contains("n");
      const key = (row) => row.cells[column].textContent;
      const order = (a, b) => (number ? Number(key(a)) - Number(key(b)) : key(a).localeCompare(key(b)));
      const rows = [...body.rows].sort((a, b) => (down ? -order(a, b) : order(a, b)));
      down = !down;
      body.append(...rows);
    });
  });
}
document.querySelectorAll("input.filter").forEach((input) => {
  const table = input.closest("section").querySelector("table");
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of table.tBodies[0].rows) {
      row.hidden = !row.textContent.toLowerCase().includes(wanted);
    }
  });
});
