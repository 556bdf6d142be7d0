// Copies what stands above a button; where the browser has no clipboard there are no buttons.
"use strict";
(() => {
    for (const button of document.querySelectorAll(".mcp-copy")) {
        button.hidden = !navigator.clipboard;
        button.addEventListener("click", async () => {
            const box = button.closest("details, .mcp-copied");
            await navigator.clipboard.writeText(box.querySelector("input")?.value ?? box.querySelector("pre").textContent);
            box.querySelector("[role=status]").textContent = button.dataset.done;
        });
    }
})();
