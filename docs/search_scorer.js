"use strict";

/* Orders the results of the search: pages that teach come first, pages about the project last. */
const LAST = new Set(["changelog", "contributing", "decisions", "measurements", "not_done"]);

function weigh(page) {
  if (page === "tutorial" || page === "quick_guide" || page.startsWith("howto/")) {
    return 3;
  }
  if (page.startsWith("reference/python/")) {
    return 0.8;
  }
  return LAST.has(page) ? 0.2 : 1;
}

var Scorer = {
  score: ([page, , , , score]) => score * weigh(page),
  // The rest are the values of Sphinx.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
