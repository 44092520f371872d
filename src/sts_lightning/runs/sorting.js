// Numbers sort as numbers, words as words; what is empty or missing stays at the end.
const value = (cell) => {
  const text = cell.textContent.trim();
  const number = parseFloat(text);
  return text === "" || text === "missing" ? null : Number.isNaN(number) || cell.classList.contains("word") ? text : number;
};
document.querySelectorAll("th button").forEach((button) => button.addEventListener("click", () => {
  const head = button.parentElement, table = head.closest("table"), column = head.cellIndex;
  const down = head.getAttribute("aria-sort") === "descending" || head.classList.contains("word") && !head.hasAttribute("aria-sort");
  table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", down ? "ascending" : "descending");
  const rows = [...table.tBodies[0].rows];
  rows.sort((first, second) => {
    const a = value(first.cells[column]), b = value(second.cells[column]);
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
    return down ? order : -order;
  });
  table.tBodies[0].append(...rows);
}));
